"""Pictures through a classifier, and its top-1 and top-5."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.accuracy.model import Model
from harness.accuracy.preprocess import prepare_chunks
from harness.runtimes.engine import EngineOptions, HostEngine


def classify(
    engine: HostEngine, model: Model, paths: Iterable[Path], *, resize: str, options: EngineOptions
) -> Iterator[npt.NDArray[np.float32]]:
    """The scores [classes] of every picture, in order: the network's own output."""
    chunk = engine.images_per_chunk(model.cfg)
    for samples in prepare_chunks(paths, model.input, resize, chunk):
        batch = np.stack([sample.tensor for sample in samples])
        heads = engine.forward(model.cfg, model.weights, batch, options).heads
        # The last tensor from the engine is the network's output.
        yield from heads[max(heads)].reshape(len(samples), -1)


def top(scores: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.intp]:
    """The `count` best classes [pictures, count] of scores [pictures, classes]; ties go to the first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def top_accuracy(scores: npt.NDArray[np.float32], labels: npt.NDArray[np.intp], count: int) -> float:
    """The fraction of pictures whose label is among the `count` best."""
    return float((top(scores, count) == labels[:, None]).any(axis=1).mean())
