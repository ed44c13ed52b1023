"""Agreement with fp32's own detections or classes: a score that needs no labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.accuracy.boxes import Detections
from harness.accuracy.nms import iou

CONFIDENCE = 0.25  # what `detect` shows
FAINT = 0.05  # confidence from which detections count in a similarity
IOU = 0.5


def detection_agreement(found: Sequence[Detections], reference: Sequence[Detections]) -> float:
    """F1 of the detections above CONFIDENCE, with fp32's as reference; 1 if both find none.

    Detections match as in `matches`.
    """
    matched = total = 0
    for some, other in zip(found, reference, strict=True):
        ours, theirs = some.above(CONFIDENCE), other.above(CONFIDENCE)
        total += len(ours) + len(theirs)
        matched += int((matches(ours, theirs) >= 0).sum())
    return 2 * matched / total if total else 1.0


def detection_similarity(found: Sequence[Detections], reference: Sequence[Detections]) -> float:
    """Dice's coefficient of the detections above FAINT, weighted by confidence; 1 if both find none.

    Unlike `detection_agreement`, a changed confidence counts, and a lost faint detection counts little.
    """
    common = total = 0.0
    for some, other in zip(found, reference, strict=True):
        ours, theirs = some.above(FAINT), other.above(FAINT)
        places = matches(ours, theirs)
        matched = places >= 0
        pairs = ours.confidences[matched], theirs.confidences[places[matched]]
        common += float(np.minimum(*pairs).sum(dtype=np.float64))
        total += float(ours.confidences.sum(dtype=np.float64) + theirs.confidences.sum(dtype=np.float64))
    return 2 * common / total if total else 1.0


def matches(found: Detections, reference: Detections) -> npt.NDArray[np.intp]:
    """[found] the place of each detection's match in the reference; -1 without a match.

    Two detections match if they have the same class and an IoU of at least 0.5. The most confident one
    is matched first, and every reference detection is matched at most once.
    """
    places = np.full(len(found), -1, np.intp)
    free = np.ones(len(reference), np.bool_)
    for number in np.argsort(-found.confidences, kind="stable"):
        overlap = np.where(
            free & (reference.classes == found.classes[number]),
            iou(found.boxes[number], reference.boxes),
            0,
        )
        if overlap.size and overlap.max() >= IOU:
            places[number] = overlap.argmax()
            free[places[number]] = False
    return places
