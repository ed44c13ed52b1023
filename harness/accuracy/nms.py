"""Non-maximum suppression as Darknet does it: per class, greedily, by one of three overlaps.

`default` suppresses boxes with an IoU above the threshold. `greedynms` subtracts a penalty for distant
centres from the IoU: (d²/c²)^0.6, with d the distance of the centres and c the diagonal of the box around
both (DIoU, Zheng et al. 2020, with Darknet's exponent). `diounms` uses the cfg's `beta_nms` as exponent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.accuracy.boxes import Candidates, Detections

Floats = npt.NDArray[np.float32]

THRESHOLD = 0.45  # Darknet's, in detection and in validation
_GREEDY_EXPONENT = 0.6
_BLOCK = 1 << 18  # overlaps computed at once


def suppress(
    candidates: Candidates, *, threshold: float = THRESHOLD, kind: str = "default", beta: float = 0.6
) -> Detections:
    """For every class, removes boxes that overlap a kept box with a higher probability."""
    boxes, probabilities = candidates.boxes, candidates.probabilities
    exponent = {"default": None, "greedynms": _GREEDY_EXPONENT, "diounms": beta}[kind]
    clashes = _clashes(boxes, threshold, exponent)
    kept = [
        (index, class_id)
        for class_id in np.flatnonzero(probabilities.any(axis=0))
        for index in _greedily(probabilities[:, class_id], clashes)
    ]
    index, classes = np.array(kept, np.intp).reshape(-1, 2).T
    return Detections(boxes=boxes[index], classes=classes, confidences=probabilities[index, classes])


def suppress_together(candidates: Candidates, *, threshold: float) -> Detections:
    """Every box keeps its best class alone, and removes less probable boxes of any class that it overlaps."""
    boxes, probabilities = candidates.boxes, candidates.probabilities
    best = probabilities.max(axis=1, initial=0)
    index = np.array(_greedily(best, _clashes(boxes, threshold, None)), np.intp)
    classes = probabilities[index].argmax(axis=1) if len(index) else index
    return Detections(boxes=boxes[index], classes=classes, confidences=best[index])


def every_candidate(candidates: Candidates) -> Detections:
    """All boxes with a probability, of networks that suppress none; most confident first."""
    rows, classes = np.nonzero(candidates.probabilities)
    confidences = candidates.probabilities[rows, classes]
    order = np.argsort(-confidences, kind="stable")
    return Detections(
        boxes=candidates.boxes[rows[order]], classes=classes[order], confidences=confidences[order]
    )


def _clashes(boxes: Floats, threshold: float, exponent: float | None) -> npt.NDArray[np.bool_]:
    """Whether a box (row) suppresses another (column), the same for every class."""
    # In blocks of rows, because a bad network can leave thousands of candidates.
    count = len(boxes)
    clashes = np.zeros((count, count), np.bool_)
    block = max(1, _BLOCK // max(count, 1))
    for start in range(0, count, block):
        rows = boxes[start : start + block, None]
        clashes[start : start + block] = _overlap(rows, boxes[None], exponent) > threshold
    return clashes


def _greedily(scores: Floats, clashes: npt.NDArray[np.bool_]) -> list[int]:
    """The boxes that stay, most probable first; a score of zero is none."""
    kept = []
    order = np.argsort(-scores, kind="stable")
    order = order[: np.count_nonzero(scores)]
    while len(order):
        best, order = int(order[0]), order[1:]
        kept.append(best)
        order = order[~clashes[best, order]]
    return kept


def iou(box: Floats, boxes: Floats) -> Floats:
    """Intersection over union of one box [4] with each of [k, 4]; 0 without overlap."""
    return _overlap(box, boxes, None)


def _overlap(one: Floats, other: Floats, exponent: float | None) -> Floats:
    """The overlap of boxes [..., 4] with others [..., 4], their leading axes broadcast."""
    x, y, width, height = np.moveaxis(one, -1, 0)
    other_x, other_y, other_width, other_height = np.moveaxis(other, -1, 0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        wide = _shared(x, width, other_x, other_width)
        high = _shared(y, height, other_y, other_height)
        shared = np.where((wide > 0) & (high > 0), wide * high, 0)
        union = width * height + other_width * other_height - shared
        overlap = np.where(shared > 0, shared / np.where(union == 0, 1, union), 0)
        if exponent is not None:
            diagonal = _span(x, width, other_x, other_width) ** 2
            diagonal += _span(y, height, other_y, other_height) ** 2
            distance = (x - other_x) ** 2 + (y - other_y) ** 2
            overlap = overlap - np.where(diagonal > 0, distance / diagonal, 0) ** exponent
    return np.asarray(overlap, np.float32)


def _shared(x: Floats, width: Floats, other: Floats, other_width: Floats) -> Floats:
    """The common length of two intervals (centre, length); negative if they are disjoint."""
    right = np.minimum(x + width / 2, other + other_width / 2)
    return np.asarray(right - np.maximum(x - width / 2, other - other_width / 2))


def _span(x: Floats, width: Floats, other: Floats, other_width: Floats) -> Floats:
    """The length of the interval that covers both."""
    right = np.maximum(x + width / 2, other + other_width / 2)
    return np.asarray(right - np.minimum(x - width / 2, other - other_width / 2))
