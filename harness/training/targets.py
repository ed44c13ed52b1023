"""What a yolo head shall say about labelled pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.accuracy.heads import DetectionHead
from harness.exporting.weights_file import Floats

# Of an anchor's overlap with an object, both centred: from the first on the anchor has to find the object,
# below the second it has to stay silent, between them it may do either.
_MATCH, _IGNORE = 0.5, 0.3

TARGET = 7  # numbers: centre and size in pixels of the input, present, counts, class


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A yolo head and its places."""

    head: DetectionHead
    rows: int
    columns: int
    width: int  # of the network's input, in pixels
    height: int


@dataclass(frozen=True, kw_only=True)
class Objects:
    """The objects of one picture."""

    boxes: Floats  # [k, 4] centre x, y, width, height; fractions of the network's input
    classes: Floats  # [k]


def mirrored(objects: Objects) -> Objects:
    """The objects of the picture with left and right exchanged."""
    boxes = objects.boxes.copy()
    boxes[:, 0] = 1 - boxes[:, 0]
    return Objects(boxes=boxes, classes=objects.classes)


def targets(pictures: Sequence[Objects], grids: Sequence[Grid]) -> list[Floats]:
    """For each head [pictures, rows, columns, anchors, TARGET].

    "present" is 1 where an anchor has to find an object, "counts" 0 where its objectness may be anything.
    """
    wanted = [_silent(len(pictures), grid) for grid in grids]
    for place, objects in enumerate(pictures):
        if len(objects.boxes):
            _fill([each[place] for each in wanted], objects, grids)
    return wanted


def _silent(count: int, grid: Grid) -> Floats:
    wanted = np.zeros((count, grid.rows, grid.columns, len(grid.head.anchors), TARGET), np.float32)
    wanted[..., 5] = 1
    return wanted


def _fill(wanted: Sequence[Floats], objects: Objects, grids: Sequence[Grid]) -> None:
    scale = np.array([grids[0].width, grids[0].height] * 2, np.float32)
    boxes = objects.boxes * scale
    overlaps = [_overlaps(boxes[:, 2:], grid.head.anchors) for grid in grids]
    best = np.concatenate(overlaps, axis=1).max(axis=1)
    for grid, places, overlap in zip(grids, wanted, overlaps, strict=True):
        for box, share, most, name in zip(boxes, overlap, best, objects.classes, strict=True):
            row = min(max(int(box[1] * grid.rows / grid.height), 0), grid.rows - 1)
            column = min(max(int(box[0] * grid.columns / grid.width), 0), grid.columns - 1)
            for anchor, part in zip(places[row, column], share, strict=True):
                if part >= _MATCH or part == most:
                    anchor[:] = (*box, 1, 1, name)
                elif part >= _IGNORE and anchor[4] == 0:
                    anchor[5] = 0


def _overlaps(sizes: Floats, anchors: Floats) -> Floats:
    """Intersection over union [objects, anchors] of boxes that share their centre."""
    common = np.minimum(sizes[:, None], anchors[None]).prod(axis=2)
    union = sizes.prod(axis=1)[:, None] + anchors.prod(axis=1)[None] - common
    return np.asarray(common / np.maximum(union, 1e-9), np.float32)
