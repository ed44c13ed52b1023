"""YOLO networks whose graph ends in one tensor per stride, before boxes are decoded.

- YOLOv5 and v7: for each of three anchors a centre, a size, an objectness and classes, all logits;
- YOLOv8, v9 and v11: the distributions of the distances to the four sides, and classes, in one tensor or two.

A tensor is [channels, rows, columns], [rows, columns, channels], [anchors, rows, columns, channels] or a
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.accuracy.boxes import Candidates, Floats
from harness.accuracy.decoders.base import (
    DecoderKind,
    Grid,
    Network,
    Shape,
    above,
    as_table,
    columns_of,
    expectation,
    found,
    from_sides,
    in_fractions,
    never,
    probabilities,
)

_STRIDES = (8, 16, 32, 64)
_ANCHORS = 3  # per cell
_BINS = 16  # of a side's distribution in YOLOv8
_COCO_CLASSES = 80

# Widths and heights in pixels, for the strides 8, 16 and 32.
_YOLOV5_ANCHORS = (10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326)
_YOLOV7_ANCHORS = (12, 16, 19, 36, 40, 28, 36, 75, 76, 55, 72, 146, 142, 110, 192, 243, 459, 401)


@dataclass(frozen=True)
class Head:
    """One output on the grid of a stride."""

    output: int  # its place among the outputs
    stride: int
    columns: int  # values per cell


@dataclass(frozen=True)
class AnchorHeads:
    """YOLOv5's heads. `anchors` are pixels, [strides, anchors, 2]."""

    network: Network
    heads: Sequence[Head]
    classes: int
    anchors: Floats

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Sigmoids of all values; sizes are squares of twice the sigmoid, in anchors."""
        tables = [
            cell_table(outputs[head.output], self.network, head.stride).reshape(-1, 5 + self.classes)
            for head in self.heads
        ]
        values = probabilities(np.concatenate(tables))
        scores = values[:, 4:5] * values[:, 5:]
        kept = above(scores, threshold)
        strides = [head.stride for head in self.heads]
        grid = Grid.of(self.network, strides, per_cell=_ANCHORS)
        cells = np.stack([grid.x, grid.y], axis=1)[kept]
        anchors = np.concatenate(
            [
                np.tile(anchors, (math.prod(self.network.cells(stride)), 1))
                for anchors, stride in zip(self.anchors, strides, strict=True)
            ]
        )[kept]
        centres = (values[kept, :2] * 2 - 0.5 + cells) * grid.stride[kept, None]
        sizes = (values[kept, 2:4] * 2) ** 2 * anchors
        boxes = np.concatenate([centres, sizes], axis=1)
        return found(in_fractions(boxes, self.network), scores[kept], threshold)


@dataclass(frozen=True)
class SideHeads:
    """YOLOv8's heads: of each stride the sides and the classes, in one tensor or in two."""

    network: Network
    sides: Sequence[Head]
    scores: Sequence[Head]  # the same as `sides` where one tensor holds both
    classes: int

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Distances from the cell's centre, in strides."""
        tables = [
            [cell_table(outputs[head.output], self.network, head.stride) for head in heads]
            for heads in (self.sides, self.scores)
        ]
        sides = np.concatenate([table[:, : 4 * _BINS] for table in tables[0]])
        scores = probabilities(np.concatenate([table[:, -self.classes :] for table in tables[1]]))
        kept = above(scores, threshold)
        grid = Grid.of(self.network, [head.stride for head in self.sides])
        stride = grid.stride[kept, None]
        centres = (np.stack([grid.x, grid.y], axis=1)[kept] + np.float32(0.5)) * stride
        boxes = from_sides(centres, expectation(sides[kept], _BINS) * stride)
        return found(in_fractions(boxes, self.network), scores[kept], threshold)


def heads_of(
    shapes: Sequence[Shape], network: Network, strides: Sequence[int] = _STRIDES
) -> list[Head] | None:
    """Every output's grid; None if an output is not on one."""
    heads = []
    for place, shape in enumerate(shapes):
        fitting = [
            Head(place, stride, columns)
            for stride in strides
            if (columns := _columns(shape, network, stride)) is not None
        ]
        if not fitting:
            return None
        # A small table may fit one grid by rows and another by columns: tables by rows are usual.
        axes = [size for size in shape if size != 1]
        heads.append(
            next(
                (head for head in fitting if axes[:1] == [math.prod(network.cells(head.stride))]), fitting[0]
            )
        )
    return heads


def cell_table(values: Floats, network: Network, stride: int) -> Floats:
    """[cells, columns] of an output on a stride's grid, cells by row; anchors are in the columns' order."""
    rows, columns = network.cells(stride)
    shape = values.shape
    if len(shape) == 4 and shape[1:3] == (rows, columns):
        return np.ascontiguousarray(values.transpose(1, 2, 0, 3)).reshape(rows * columns, -1)
    if len(shape) == 3 and shape[1:] == (rows, columns):
        return np.ascontiguousarray(values.reshape(-1, rows * columns).T)
    if len(shape) == 3 and shape[:2] == (rows, columns):
        return values.reshape(rows * columns, -1)
    return as_table(values, rows * columns)


def _columns(shape: Shape, network: Network, stride: int) -> int | None:
    grid = network.cells(stride)
    if len(shape) == 4 and shape[1:3] == grid:
        return shape[0] * shape[3]
    if len(shape) == 3 and shape[1:] == grid:
        return shape[0]
    if len(shape) == 3 and shape[:2] == grid:
        return shape[2]
    return columns_of(shape, math.prod(grid))


def _read_anchors(shapes: Sequence[Shape], network: Network, defaults: Sequence[float]) -> AnchorHeads | None:
    heads = heads_of(shapes, network)
    if heads is None or len({head.stride for head in heads}) != len(heads):
        return None
    columns = {head.columns for head in heads}
    classes = columns.pop() // _ANCHORS - 5
    flat = network.anchors or defaults
    if columns or classes < 1 or heads[0].columns % _ANCHORS or len(flat) != 2 * _ANCHORS * len(heads):
        return None
    # Anchors go from the finest grid to the coarsest, outputs in either order.
    heads = sorted(heads, key=lambda head: head.stride)
    anchors = np.array(flat, np.float32).reshape(len(heads), _ANCHORS, 2)
    return AnchorHeads(network, heads, classes, anchors)


def _read_yolov5(shapes: Sequence[Shape], network: Network) -> AnchorHeads | None:
    return _read_anchors(shapes, network, _YOLOV5_ANCHORS)


def _read_yolov7(shapes: Sequence[Shape], network: Network) -> AnchorHeads | None:
    return _read_anchors(shapes, network, _YOLOV7_ANCHORS)


def _read_yolov8(shapes: Sequence[Shape], network: Network) -> SideHeads | None:
    heads = heads_of(shapes, network)
    if heads is None:
        return None
    strides = sorted({head.stride for head in heads})
    each = [[head for head in heads if head.stride == stride] for stride in strides]
    if all(len(pair) == 2 for pair in each):
        sides = [next((head for head in pair if head.columns == 4 * _BINS), pair[0]) for pair in each]
        scores = [
            next(head for head in pair if head is not side) for pair, side in zip(each, sides, strict=True)
        ]
        classes = {head.columns for head in scores}
        if {head.columns for head in sides} != {4 * _BINS} or len(classes) != 1:
            return None
        return SideHeads(network, sides, scores, classes.pop())
    joined = [pair[0] for pair in each]
    columns = {head.columns for head in joined}
    if len(strides) != len(heads) or len(columns) != 1 or min(columns) <= 4 * _BINS or len(strides) < 2:
        return None
    return SideHeads(network, joined, joined, columns.pop() - 4 * _BINS)


def _likelier_sides(shapes: Sequence[Shape], network: Network) -> bool:
    """Whether one tensor per stride is YOLOv8's and not YOLOv5's: names tell, or else COCO's 80 classes."""
    anchors, sides = _read_yolov5(shapes, network), _read_yolov8(shapes, network)
    if anchors is None or sides is None:
        return sides is not None
    wanted = network.names or _COCO_CLASSES
    return sides.classes == wanted or anchors.classes != wanted


def _likelier_anchors(shapes: Sequence[Shape], network: Network) -> bool:
    return not _likelier_sides(shapes, network)


KINDS = (
    DecoderKind(
        word="yolov8_heads",
        what="YOLOv8, v9 and v11, a tensor or two per stride",
        read=_read_yolov8,
        overlap=0.7,
        looks=_likelier_sides,
    ),
    DecoderKind(
        word="yolov5_heads",
        what="YOLOv5, a tensor per stride",
        read=_read_yolov5,
        overlap=0.45,
        looks=_likelier_anchors,
    ),
    DecoderKind(
        word="yolov7_heads", what="YOLOv7, a tensor per stride", read=_read_yolov7, overlap=0.45, looks=never
    ),
)
