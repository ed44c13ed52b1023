"""Detections compared with labels by pycocotools."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.accuracy.boxes import Detections
from harness.accuracy.truth import Truth

_MOST_DETECTIONS = 100  # counted by COCO per picture and class
_ANY_AREA = 1e10
_quiet = threading.Lock()  # sys.stdout is redirected for all threads

# Square pixels of objects by COCO's words.
AREAS = {
    "all": (0.0, _ANY_AREA),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, _ANY_AREA),
}


@dataclass(frozen=True, kw_only=True)
class CocoEvaluation:
    """Results of pycocotools."""

    classes: tuple[int, ...]  # that have a box, in order
    precision: npt.NDArray[np.float64]  # [overlaps, recalls, classes, areas]; -1 where a class has no box
    pictures: Sequence[dict[str, Any] | None]  # by class, area and picture


def coco_evaluation(
    detections: Sequence[Detections],
    truths: Sequence[Truth],
    sizes: Sequence[tuple[int, int]],
    areas: Sequence[str],
) -> CocoEvaluation:
    """Runs pycocotools for objects of these AREAS; at least one picture has a box.

    Boxes are clipped to the pictures, of `sizes` (width, height).
    """
    with _quiet, contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        truth_set, found_set = COCO(), COCO()
        images = [
            {"id": number, "width": size[0], "height": size[1]} for number, size in enumerate(sizes, start=1)
        ]
        classes = tuple(sorted({int(class_id) for truth in truths for class_id in truth.classes}))
        categories = [{"id": class_id} for class_id in classes]
        for coco, annotations in (
            (truth_set, _truth_annotations(truths, sizes)),
            (found_set, _found_annotations(detections, sizes)),
        ):
            coco.dataset = {"images": images, "categories": categories, "annotations": annotations}
            coco.createIndex()
        evaluation = COCOeval(truth_set, found_set, "bbox")
        evaluation.params.areaRng = [list(AREAS[area]) for area in areas]
        evaluation.params.areaRngLbl = list(areas)
        evaluation.params.maxDets = [_MOST_DETECTIONS]
        evaluation.evaluate()
        evaluation.accumulate()
    return CocoEvaluation(
        classes=classes,
        precision=evaluation.eval["precision"][..., 0],
        pictures=evaluation.evalImgs,
    )


def _truth_annotations(truths: Sequence[Truth], sizes: Sequence[tuple[int, int]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for image, (truth, (width, height)) in enumerate(zip(truths, sizes, strict=True), start=1):
        corners = truth.boxes * [width, height, width, height]
        corners[:, :2] -= corners[:, 2:] / 2
        areas = corners[:, 2] * corners[:, 3] if truth.areas is None else truth.areas
        rows += [
            {
                "id": len(rows) + number + 1,
                "image_id": image,
                "category_id": int(truth.classes[number]),
                "bbox": corners[number].tolist(),
                "area": float(areas[number]),
                "iscrowd": int(truth.crowd[number]),
            }
            for number in range(len(corners))
        ]
    return rows


def _found_annotations(
    detections: Sequence[Detections], sizes: Sequence[tuple[int, int]]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for image, (found, (width, height)) in enumerate(zip(detections, sizes, strict=True), start=1):
        corners = found.corners()
        low = np.clip(corners[:, :2], 0, 1)
        high = np.clip(corners[:, :2] + corners[:, 2:], 0, 1)
        clipped = np.concatenate([low, high - low], axis=1) * [width, height, width, height]
        rows += [
            {
                "id": len(rows) + number + 1,
                "image_id": image,
                "category_id": int(found.classes[number]),
                "bbox": clipped[number].tolist(),
                "area": float(clipped[number, 2] * clipped[number, 3]),
                "iscrowd": 0,
                "score": float(found.confidences[number]),
            }
            for number in range(len(found))
        ]
    return rows
