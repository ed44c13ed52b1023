"""Activation ranges for int8, recorded in fp32 on sample pictures.

The file (JSON) has a range for the network's input (layer -1) and for every layer, and the range of each
channel, for tensors that are quantised per channel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import console
from harness.accuracy.dataset import read_pictures
from harness.accuracy.model import Model, in_fp32, load_model
from harness.accuracy.overlap import picture_digest
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.preprocess import prepare_chunks
from harness.accuracy.ranges import METHODS, Histogram, choose
from harness.errors import ConfigurationError
from harness.files import write_atomically
from harness.runtimes.engine import EngineOptions, HostEngine

Floats = npt.NDArray[np.float32]

_INPUT = -1  # the layer index of the network's input
_PREPARED = 8  # pictures at a time


@dataclass(frozen=True, kw_only=True)
class TensorRange:
    """The values of one tensor."""

    layer: int
    low: float
    high: float
    channel_low: Floats  # [channels], smallest value
    channel_high: Floats

    def as_json(self) -> dict[str, object]:
        """The entry of the calibration file."""
        return {
            "layer": self.layer,
            "min": _number(self.low),
            "max": _number(self.high),
            "channel_min": [_number(value) for value in self.channel_low],
            "channel_max": [_number(value) for value in self.channel_high],
        }


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The ranges of one network's tensors."""

    method: str
    images: int
    input: tuple[int, int, int]  # channels, height, width
    layers: int
    tensors: tuple[TensorRange, ...]
    pictures: tuple[str, ...]  # digests of the pictures, to detect evaluation on the same ones

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "format": "mpe-calibration",
            "version": 1,
            "method": self.method,
            "images": self.images,
            "network": {"layers": self.layers, "input": list(self.input)},
            "pictures": list(self.pictures),
            "tensors": [tensor.as_json() for tensor in self.tensors],
        }

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        write_atomically(path, calibration_text(self.document()).encode())


def calibration_text(document: Mapping[str, Any]) -> str:
    """The text of a calibration file. One line per tensor: a diff shows each changed range."""
    head = {key: value for key, value in document.items() if key != "tensors"}
    rows = ",\n".join(f"  {json.dumps(entry)}" for entry in document["tensors"])
    return f'{json.dumps(head)[:-1]}, "tensors": [\n{rows}\n]}}\n'


def calibrate(
    engine: HostEngine,
    *,
    cfg: Path,
    weights: Path,
    dataset: Path,
    method: str = "minmax",
    limit: int | None = 32,
    skip: int = 0,
    resize: str | None = None,
    options: EngineOptions | None = None,
    as_is: bool = False,
    origin: Path | None = None,
) -> Calibration:
    """Runs `limit` pictures (after the first `skip`) and chooses every tensor's range; in fp32 or, `as_is`,
    in the precisions of the cfg.

    Labels are not needed. A `data.yaml` without a split means its split `train`, if it exists, because
    accuracy is evaluated on the others. All methods except `minmax` run the pictures twice: for the ends,
    then for the histograms between them. `origin` is the user's cfg if `cfg` is a copy with a policy's
    precisions. Raises ConfigurationError on bad input.
    """
    if method not in METHODS:
        raise ConfigurationError(f"unknown method {method}: choose from {', '.join(METHODS)}")
    model = load_model(engine, cfg, weights, origin=origin)
    rules = model.pictures(resize)
    found = read_pictures(dataset, split="train")
    if limit is not None and limit < 1:
        raise ConfigurationError(f"a limit of {limit} pictures: at least 1 is needed")
    if not 0 <= skip < len(found):
        raise ConfigurationError(f"{dataset}: cannot skip {skip} of {len(found)} pictures")
    paths = found[skip:][:limit]
    chosen = options or EngineOptions(threads=os.cpu_count() or 1)
    ends = _Ends()
    histograms: dict[int, Histogram] = {}
    with nullcontext(model) if as_is else in_fp32(model) as reference:
        passes = 1 if method == "minmax" else 2
        with console.progress("recording ranges", total=passes * len(paths)) as bar:
            for tensors in _tensors(engine, reference, paths, rules, chosen):
                ends.add(tensors)
                bar.advance(len(tensors[_INPUT]))
            if passes == 2:
                bar.describe("counting values")
                histograms = {layer: Histogram.over(*ends.of(layer)) for layer in ends.channels}
                for tensors in _tensors(engine, reference, paths, rules, chosen):
                    for layer, tensor in tensors.items():
                        histograms[layer] = histograms[layer].plus(tensor)
                    bar.advance(len(tensors[_INPUT]))
    return Calibration(
        method=method,
        images=len(paths),
        input=model.input,
        layers=len(model.layers),
        pictures=tuple(picture_digest(path) for path in paths),
        tensors=tuple(_range(method, layer, ends, histograms.get(layer)) for layer in sorted(ends.channels)),
    )


def write_pictures(model: Model, *, dataset: Path, limit: int | None, resize: str | None, out: Path) -> None:
    """Writes the pictures that `calibrate` would run, as .npy: float32 [n, channels, height, width]."""
    paths = read_pictures(dataset, split="train")[:limit]
    shape = (len(paths), *model.input)
    written = np.lib.format.open_memmap(out, mode="w+", dtype=np.float32, shape=shape)
    place = 0
    for samples in prepare_chunks(paths, model.input, model.pictures(resize), _PREPARED):
        for sample in samples:
            written[place] = sample.tensor
            place += 1
    written.flush()


class _Ends:
    """The least and largest value of every channel of every tensor so far."""

    def __init__(self) -> None:
        self.channels: dict[int, tuple[Floats, Floats]] = {}

    def add(self, tensors: dict[int, Floats]) -> None:
        for layer, tensor in tensors.items():
            low, high = tensor.min(axis=(0, 2, 3)), tensor.max(axis=(0, 2, 3))
            if not (np.isfinite(low).all() and np.isfinite(high).all()):
                raise ConfigurationError(
                    f"layer {layer} computes infinite values or NaN",
                    hint="Check that the weights belong to this cfg, or set --bn-epsilon.",
                )
            if layer in self.channels:
                before = self.channels[layer]
                low, high = np.minimum(low, before[0]), np.maximum(high, before[1])
            self.channels[layer] = (low, high)

    def of(self, layer: int) -> tuple[float, float]:
        low, high = self.channels[layer]
        return float(low.min()), float(high.max())


def _tensors(
    engine: HostEngine, model: Model, paths: list[Path], rules: PictureRules, options: EngineOptions
) -> Iterator[dict[int, Floats]]:
    """The network's input and every layer's output, [images, channels, height, width], chunk by chunk."""
    chunk = engine.images_per_chunk(model.cfg, layers=True)
    for samples in prepare_chunks(paths, model.input, rules, chunk):
        batch = np.stack([sample.tensor for sample in samples])
        layers = engine.forward(model.cfg, model.weights, batch, options, layers=True).layers
        yield {_INPUT: batch} | layers


def _range(method: str, layer: int, ends: _Ends, histogram: Histogram | None) -> TensorRange:
    low, high = ends.of(layer)
    # Values of pictures are bounded: the network's input has no outliers to clip.
    if histogram is not None and layer != _INPUT:
        low, high = choose(method, histogram)
    channel_low, channel_high = ends.channels[layer]
    return TensorRange(layer=layer, low=low, high=high, channel_low=channel_low, channel_high=channel_high)


def _number(value: float) -> float:
    """Nine digits distinguish all single-precision numbers."""
    return float(f"{float(value):.9g}")
