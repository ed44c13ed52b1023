"""Non-maximum suppression as Darknet does it: per class, greedily, by one of three overlaps.

`default` suppresses where IoU is above the threshold. `greedynms` subtracts from the IoU a penalty
for distant centres, (d²/c²)^0.6 with d the centres' distance and c the diagonal of the box round
both (DIoU, Zheng et al. 2020, with Darknet's exponent); `diounms` is the same with the cfg's
`beta_nms` for exponent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.accuracy.decode import Candidates, Detections

Floats = npt.NDArray[np.float32]

THRESHOLD = 0.45  # Darknet's, in detection and in validation
_GREEDY_EXPONENT = 0.6


def suppress(
    candidates: Candidates, *, threshold: float = THRESHOLD, kind: str = "default", beta: float = 0.6
) -> Detections:
    """Keeps, for every class, the boxes that no more probable kept box overlaps."""
    boxes, probabilities = candidates.boxes, candidates.probabilities
    exponent = {"default": None, "greedynms": _GREEDY_EXPONENT, "diounms": beta}[kind]
    clashes: dict[int, npt.NDArray[np.bool_]] = {}  # a box's row, computed once for all classes
    kept_boxes: list[int] = []
    kept_classes: list[int] = []
    for class_id in np.flatnonzero(probabilities.any(axis=0)):
        scores = probabilities[:, class_id]
        order = np.argsort(-scores, kind="stable")
        order = order[: np.count_nonzero(scores)]
        while len(order):
            best = int(order[0])
            if best not in clashes:
                clashes[best] = _overlap(boxes[best], boxes, exponent) > threshold
            kept_boxes.append(best)
            kept_classes.append(int(class_id))
            order = order[1:][~clashes[best][order[1:]]]
    index = np.array(kept_boxes, np.intp)
    classes = np.array(kept_classes, np.intp)
    return Detections(boxes=boxes[index], classes=classes, confidences=probabilities[index, classes])


def iou(box: Floats, boxes: Floats) -> Floats:
    """Intersection over union of one box [4] with each of [k, 4]; 0 where nothing overlaps."""
    return _overlap(box, boxes, None)


def _overlap(box: Floats, boxes: Floats, exponent: float | None) -> Floats:
    low, high = box[:2] - box[2:] / 2, box[:2] + box[2:] / 2
    lows, highs = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sides = np.minimum(high, highs) - np.maximum(low, lows)
        shared = np.where((sides > 0).all(axis=1), sides.prod(axis=1), 0)
        union = box[2] * box[3] + boxes[:, 2] * boxes[:, 3] - shared
        overlap = np.where(shared > 0, shared / np.where(union == 0, 1, union), 0)
        if exponent is not None:
            around = np.maximum(high, highs) - np.minimum(low, lows)
            diagonal = (around**2).sum(axis=1)
            distance = ((boxes[:, :2] - box[:2]) ** 2).sum(axis=1)
            overlap = overlap - np.where(diagonal > 0, distance / diagonal, 0) ** exponent
    return np.asarray(overlap, np.float32)
