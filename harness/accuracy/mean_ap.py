"""Mean average precision, as defined by COCO and by Darknet.

`coco_scores` are COCO's, from pycocotools: AP50, and AP averaged over IoU 0.50 to 0.95. The mean omits
classes without a box in the data; at most 100 detections per picture count.

`darknet_map` is the score of `darknet detector map -points 101`: every class of the network counts, with 0
if it has no boxes; a detection matches the box of its class with the largest overlap, a second detection of
that box is false, and precision is interpolated at 101 recalls.

Both need detections of low confidence, too: of 0.005 and more in Darknet, 0.001 elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.accuracy.boxes import Detections
from harness.accuracy.coco_evaluation import coco_evaluation
from harness.accuracy.nms import iou
from harness.accuracy.resampling import ClassMatches
from harness.accuracy.truth import Truth

_RECALLS = np.arange(101) / 100


def darknet_map(
    detections: Sequence[Detections], truths: Sequence[Truth], classes: int, *, iou_threshold: float = 0.5
) -> float:
    """Darknet's mAP as a fraction, averaged over `classes`. Darknet ignores crowds."""
    precisions = darknet_precisions(detections, truths, classes, iou_threshold=iou_threshold)
    return float(precisions.mean())


def darknet_precisions(
    detections: Sequence[Detections], truths: Sequence[Truth], classes: int, *, iou_threshold: float = 0.5
) -> npt.NDArray[np.float64]:
    """Average precision of every class, [classes]."""
    matches = [_match(found, truth, iou_threshold) for found, truth in zip(detections, truths, strict=True)]
    # Number the boxes of the whole set, to recognise second detections.
    starts = np.cumsum([0, *(len(truth.classes) for truth in truths)])
    number = _concatenated(
        [np.where(match >= 0, match + start, -1) for match, start in zip(matches, starts[:-1], strict=True)]
    )
    found_classes = _concatenated([found.classes for found in detections])
    confidences = np.concatenate([np.zeros(0, np.float32), *(found.confidences for found in detections)])
    truth_classes = _concatenated([truth.classes[~truth.crowd] for truth in truths])
    result = np.zeros(classes)
    for class_id in range(classes):
        chosen = np.flatnonzero(found_classes == class_id)
        chosen = chosen[np.argsort(-confidences[chosen], kind="stable")]
        hits = _first_occurrences(number[chosen])
        result[class_id] = _average_precision(hits, int((truth_classes == class_id).sum()))
    return result


@dataclass(frozen=True)
class CocoScores:
    """AP50 and AP as fractions (NaN without boxes), and the matches behind AP50."""

    ap50: float
    ap: float
    matches: Sequence[ClassMatches]  # of every class with a box


def coco_scores(
    detections: Sequence[Detections], truths: Sequence[Truth], sizes: Sequence[tuple[int, int]]
) -> CocoScores:
    """The scores of pycocotools; boxes are clipped to the pictures, `sizes` (width, height)."""
    if not any((~truth.crowd).any() for truth in truths):
        return CocoScores(float("nan"), float("nan"), [])
    # All sizes together; COCO's scores by size would take three times as long again.
    evaluation = coco_evaluation(detections, truths, sizes, ["all"])
    # [overlap, recall, class, size, most detections]; -1 where a class has no box.
    precision = evaluation.precision[:, :, :, 0]
    matches = _class_matches(evaluation.pictures, len(truths))
    return CocoScores(_mean_of_known(precision[0]), _mean_of_known(precision), matches)


def _class_matches(evaluated: Sequence[dict[str, Any] | None], pictures: int) -> list[ClassMatches]:
    """The matches of each class, from pycocotools' results per picture."""
    found = []
    for first in range(0, len(evaluated), pictures):
        each = [(place, entry) for place, entry in enumerate(evaluated[first : first + pictures]) if entry]
        boxes = np.zeros(pictures, np.intp)
        for place, entry in each:
            boxes[place] = np.count_nonzero(~np.asarray(entry["gtIgnore"], np.bool_))
        if not boxes.any():
            continue
        scores = np.concatenate([entry["dtScores"] for _, entry in each])
        places = np.concatenate([np.full(len(entry["dtScores"]), place) for place, entry in each])
        hits = np.concatenate([entry["dtMatches"][0] > 0 for _, entry in each])
        counted = np.concatenate([~entry["dtIgnore"][0].astype(np.bool_) for _, entry in each])
        order = np.argsort(-scores, kind="stable")
        order = order[counted[order]]
        found.append(ClassMatches(pictures=places[order].astype(np.intp), hits=hits[order], boxes=boxes))
    return found


def _mean_of_known(precision: npt.NDArray[np.float64]) -> float:
    return float(precision[precision > -1].mean())


def _match(found: Detections, truth: Truth, threshold: float) -> npt.NDArray[np.intp]:
    """For every detection, the box of its class with the largest overlap; -1 up to the threshold."""
    match = np.full(len(found), -1, np.intp)
    best = np.full(len(found), threshold)
    for number in np.flatnonzero(~truth.crowd):
        overlap = np.where(
            found.classes == truth.classes[number],
            iou(truth.boxes[number].astype(np.float32), found.boxes),
            0,
        )
        better = overlap > best
        match[better], best[better] = number, overlap[better]
    return match


def _first_occurrences(numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """True at the first occurrence of each number except -1."""
    _, first = np.unique(numbers, return_index=True)
    hits = np.zeros(len(numbers), np.bool_)
    hits[first] = True
    return hits & (numbers >= 0)


def _average_precision(hits: npt.NDArray[np.bool_], boxes: int) -> float:
    """Mean, over 101 recalls, of the best precision at that recall or a higher one."""
    if not boxes or not len(hits):
        return 0.0
    true = np.cumsum(hits)
    precision = true / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    reached = np.searchsorted(true / boxes, _RECALLS, side="left")
    return float(np.append(envelope, 0.0)[reached].mean())


def _concatenated(parts: Sequence[npt.NDArray[np.intp]]) -> npt.NDArray[np.intp]:
    return np.concatenate([np.zeros(0, np.intp), *parts])
