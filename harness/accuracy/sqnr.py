"""Signal to quantisation-noise ratio of every layer against the same network in fp32."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import console
from harness.accuracy.model import Model, in_fp32
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.preprocess import prepare_chunks
from harness.runtimes.engine import EngineOptions, HostEngine


def decibels(signal: float, noise: float) -> float | None:
    """10 log10(signal / noise); None without noise or without signal."""
    return None if noise == 0 or signal == 0 else 10 * math.log10(signal / noise)


@dataclass(frozen=True, kw_only=True)
class LayerNoise:
    """One layer's output compared with fp32's, over all pictures."""

    index: int
    kind: str
    precision: str
    signal: float  # sum of squares of fp32's output
    noise: float  # sum of squares of the difference

    @property
    def sqnr_db(self) -> float | None:
        """10 log10(signal / noise); None without noise or without signal."""
        return decibels(self.signal, self.noise)


def layer_noise(
    engine: HostEngine, model: Model, paths: Iterable[Path], *, rules: PictureRules, options: EngineOptions
) -> list[LayerNoise]:
    """Runs the pictures in the cfg's precisions and in fp32, and compares every layer's output.

    The noise accumulates over all layers up to this one.
    """
    pictures = list(paths)
    count = len(model.layers)
    signal, noise = np.zeros(count), np.zeros(count)
    chunk = max(1, engine.images_per_chunk(model.cfg, layers=True) // 2)  # two sets at a time
    with in_fp32(model) as reference, console.progress("comparing layers", total=len(pictures)) as bar:
        for samples in prepare_chunks(pictures, model.input, rules, chunk):
            batch = np.stack([sample.tensor for sample in samples])
            expected = engine.forward(reference.cfg, model.weights, batch, options, layers=True).layers
            given = engine.forward(model.cfg, model.weights, batch, options, layers=True).layers
            for index, tensor in expected.items():
                difference = given[index] - tensor
                signal[index] += np.vdot(tensor, tensor)
                noise[index] += np.vdot(difference, difference)
            bar.advance(len(samples))
    return [
        LayerNoise(
            index=index,
            kind=layer["type"],
            precision=layer["precision"],
            signal=float(signal[index]),
            noise=float(noise[index]),
        )
        for index, layer in enumerate(model.layers)
    ]
