"""Agreement with fp32's own detections or classes: a score that needs no labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.accuracy.boxes import Detections
from harness.accuracy.nms import iou

CONFIDENCE = 0.25  # what `detect` shows
_IOU = 0.5


def detection_agreement(found: Sequence[Detections], reference: Sequence[Detections]) -> float:
    """F1 of the detections above CONFIDENCE, with fp32's as reference; 1 if both find none.

    Two detections match if they have the same class and an IoU of at least 0.5. The most confident one
    is matched first, and every reference detection is matched at most once.
    """
    matched = total = 0
    for some, other in zip(found, reference, strict=True):
        ours, theirs = some.above(CONFIDENCE), other.above(CONFIDENCE)
        total += len(ours) + len(theirs)
        free = np.ones(len(theirs), np.bool_)
        for number in np.argsort(-ours.confidences, kind="stable"):
            overlap = np.where(
                free & (theirs.classes == ours.classes[number]), iou(ours.boxes[number], theirs.boxes), 0
            )
            if overlap.size and overlap.max() >= _IOU:
                free[overlap.argmax()] = False
                matched += 1
    return 2 * matched / total if total else 1.0
