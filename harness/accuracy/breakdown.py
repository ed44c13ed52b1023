"""Accuracy class by class, and of small, medium and large objects as COCO defines them.

`recall` is the share of labelled boxes that are found with an overlap of at least 0.5 by detections that
`detect` shows (CONFIDENCE): what a detector in use misses. AP counts detections of any confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.accuracy.agreement import CONFIDENCE
from harness.accuracy.boxes import Detections
from harness.accuracy.coco_evaluation import AREAS, CocoEvaluation, coco_evaluation
from harness.accuracy.truth import Truth


@dataclass(frozen=True, kw_only=True)
class BoxScore:
    """The scores of one class, or of one size of objects, as fractions; AP is NaN without boxes."""

    boxes: int  # labelled ones
    ap50: float
    ap: float
    found: int  # labelled boxes found by detections above CONFIDENCE

    @property
    def recall(self) -> float:
        """The share of boxes found; NaN without boxes."""
        return self.found / self.boxes if self.boxes else float("nan")


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Scores by class and by size."""

    classes: dict[int, BoxScore]  # of the classes that have a box
    sizes: dict[str, BoxScore]  # small, medium and large


def breakdown(
    detections: Sequence[Detections], truths: Sequence[Truth], sizes: Sequence[tuple[int, int]]
) -> Breakdown:
    """The scores of pictures of `sizes` (width, height), of which at least one has a box."""
    areas = list(AREAS)
    every = coco_evaluation(detections, truths, sizes, areas)
    shown = coco_evaluation([found.above(CONFIDENCE) for found in detections], truths, sizes, areas)
    boxes, found = _counts(shown, len(truths))
    classes = {}
    for place, class_id in enumerate(every.classes):
        if boxes[place, 0]:
            classes[class_id] = BoxScore(
                boxes=int(boxes[place, 0]),
                found=int(found[place, 0]),
                ap50=_mean(every.precision[0, :, place, 0]),
                ap=_mean(every.precision[:, :, place, 0]),
            )
    by_size = {
        area: BoxScore(
            boxes=int(boxes[:, place].sum()),
            found=int(found[:, place].sum()),
            ap50=_mean(every.precision[0, :, :, place]),
            ap=_mean(every.precision[:, :, :, place]),
        )
        for place, area in enumerate(areas)
        if area != "all"
    }
    return Breakdown(classes=classes, sizes=by_size)


def _counts(evaluation: CocoEvaluation, pictures: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Labelled boxes, and those found at an overlap of 0.5, [classes, areas]."""
    shape = (len(evaluation.classes), len(AREAS))
    boxes, found = np.zeros(shape, np.intp), np.zeros(shape, np.intp)
    for number, entry in enumerate(evaluation.pictures):
        if entry is None:
            continue
        place = np.unravel_index(number // pictures, shape)
        counted = ~np.asarray(entry["gtIgnore"], np.bool_)
        boxes[place] += np.count_nonzero(counted)
        found[place] += np.count_nonzero(counted & (entry["gtMatches"][0] > 0))
    return boxes, found


def _mean(precision: npt.NDArray[np.float64]) -> float:
    """The mean over what is known; pycocotools marks the rest by -1."""
    known = precision[precision > -1]
    return float(known.mean()) if known.size else float("nan")
