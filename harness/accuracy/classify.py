"""Pictures through a classifier, and its top-1 and top-5."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.accuracy.boxes import Floats
from harness.accuracy.executor import Executor
from harness.accuracy.model import Model
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.preprocess import prepare_chunks
from harness.runtimes.engine import EngineOptions


def outputs_of_pictures(
    engine: Executor, model: Model, paths: Iterable[Path], *, rules: PictureRules, options: EngineOptions
) -> Iterator[list[Floats]]:
    """The network's own outputs for every picture, in order."""
    chunk = engine.images_per_chunk(model.cfg)
    for samples in prepare_chunks(paths, model.input, rules, chunk):
        batch = np.stack([sample.tensor for sample in samples])
        heads = engine.forward(model.cfg, model.weights, batch, options).heads
        for number in range(len(samples)):
            yield model.arrays(heads, number)


def top(scores: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.intp]:
    """The `count` best classes [pictures, count] of scores [pictures, classes]; ties go to the first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def top_accuracy(scores: npt.NDArray[np.float32], labels: npt.NDArray[np.intp], count: int) -> float:
    """The fraction of pictures whose label is among the `count` best."""
    return float((top(scores, count) == labels[:, None]).any(axis=1).mean())
