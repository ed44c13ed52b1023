"""Pictures through a detector: preprocessing, engine, decoding and suppression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from harness.accuracy.boxes import Candidates, Detections, Floats, join
from harness.accuracy.decoders.darknet import decode
from harness.accuracy.model import Model
from harness.accuracy.nms import suppress
from harness.accuracy.preprocess import Sample, prepare_chunks
from harness.runtimes.engine import EngineOptions, HostEngine


def detect(
    engine: HostEngine,
    model: Model,
    paths: Iterable[Path],
    *,
    threshold: float,
    resize: str,
    options: EngineOptions,
) -> Iterator[tuple[Sample, Detections]]:
    """Every picture with its detections above `threshold`, in order; the model must be a detector."""
    chunk = engine.images_per_chunk(model.cfg)
    for samples in prepare_chunks(paths, model.input, resize, chunk):
        batch = np.stack([sample.tensor for sample in samples])
        heads = engine.forward(model.cfg, model.weights, batch, options).heads
        for number, sample in enumerate(samples):
            tensors = {layer: tensor[number] for layer, tensor in heads.items()}
            yield sample, read_detections(model, tensors, sample, threshold)


def read_detections(model: Model, tensors: dict[int, Floats], sample: Sample, threshold: float) -> Detections:
    """One picture's head tensors [channels, rows, columns], by producing layer, to detections."""
    heads = model.outputs.heads
    found = join([decode(head, tensors[head.source], model.input, threshold) for head in heads])
    # Overlaps are computed on the picture: stretching it changes distances.
    placed = Candidates(boxes=sample.placement.to_picture(found.boxes), probabilities=found.probabilities)
    # As in Darknet, the keys of the last head apply to all.
    return suppress(placed, kind=heads[-1].nms_kind, beta=heads[-1].beta_nms)
