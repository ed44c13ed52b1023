"""Pictures through a detector: preprocessing, network, decoding and suppression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from harness.accuracy.boxes import Detections
from harness.accuracy.executor import Executor
from harness.accuracy.model import Model
from harness.accuracy.picture_rules import PictureRules
from harness.accuracy.preprocess import Sample, prepare_chunks
from harness.accuracy.reading import BoxReading
from harness.runtimes.engine import EngineOptions


def detect(
    engine: Executor,
    model: Model,
    paths: Iterable[Path],
    *,
    reading: BoxReading,
    threshold: float,
    rules: PictureRules,
    options: EngineOptions,
) -> Iterator[tuple[Sample, Detections]]:
    """Every picture with its detections above `threshold`, in order; `reading` is the model's."""
    chunk = engine.images_per_chunk(model.cfg)
    for samples in prepare_chunks(paths, model.input, rules, chunk):
        batch = np.stack([sample.tensor for sample in samples])
        heads = engine.forward(model.cfg, model.weights, batch, options).heads
        for number, sample in enumerate(samples):
            outputs = model.arrays(heads, number)
            yield sample, reading.detections(outputs, sample.placement, threshold)
