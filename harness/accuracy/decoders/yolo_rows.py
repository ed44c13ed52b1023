"""YOLO networks whose graph ends in a table with a row or a column per box.

- YOLOv5, v6 and v7: centre, size, objectness, classes;
- YOLOX: the same, but the centre as an offset from the cell and the size as a logarithm, both in strides;
- YOLOv8, v9 and v11: centre, size, classes;
- YOLO-NAS and PP-YOLOE: corners in one table, classes in another;
- YOLOv10 and v26 without suppression: corners, probability, class of the 300 best boxes.

Centres, sizes and corners are in pixels, or in fractions of the input as in TensorFlow Lite's exports.
"""

from __future__ import annotations

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
    exponential,
    found,
    from_corners,
    in_fractions,
    never,
)
from harness.accuracy.picture_rules import PictureRules

STRIDES = (8, 16, 32)
_STRIDES_OF_SIX = (8, 16, 32, 64)  # of the models for large pictures
_ANCHORS = 3  # boxes per cell of YOLOv5 and v7
_MOST_ROWS = 1000  # of a table of the best boxes
_COCO_CLASSES = 80
# No picture has all its boxes within two pixels of its corner: such coordinates are fractions.
_LARGEST_FRACTION = 2.0


@dataclass(frozen=True)
class Rows:
    """A table of centres, sizes, objectness if there is one, and classes."""

    network: Network
    rows: int
    classes: int
    objectness: bool

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Centres and sizes as the graph gives them."""
        table = as_table(outputs[0], self.rows)
        scores = _scores(table, self.objectness, self.classes)
        kept = above(scores, threshold)
        fractions = np.abs(table[:, :2]).max() <= _LARGEST_FRACTION
        boxes = table[kept, :4]
        return found(boxes if fractions else in_fractions(boxes, self.network), scores[kept], threshold)


@dataclass(frozen=True)
class OffsetRows:
    """YOLOX's table before its centres and sizes are decoded."""

    network: Network
    strides: Sequence[int]
    classes: int

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Offsets from cells, and logarithms of sizes."""
        table = as_table(outputs[0], self.network.count(self.strides))
        scores = _scores(table, True, self.classes)
        kept = above(scores, threshold)
        grid = Grid.of(self.network, self.strides)
        stride = grid.stride[kept, None]
        cells = np.stack([grid.x[kept], grid.y[kept]], axis=1)
        boxes = np.concatenate([table[kept, :2] + cells, exponential(table[kept, 2:4])], axis=1) * stride
        return found(in_fractions(boxes, self.network), scores[kept], threshold)


@dataclass(frozen=True)
class TwoTables:
    """A table of corners and one of classes."""

    network: Network
    rows: int
    boxes: int  # the place of the corners among the outputs
    classes: int

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Corners as the graph gives them."""
        scores = as_table(outputs[1 - self.boxes], self.rows)
        corners = as_table(outputs[self.boxes], self.rows)
        kept = above(scores, threshold)
        fractions = np.abs(corners).max() <= _LARGEST_FRACTION
        boxes = from_corners(corners[kept])
        return found(boxes if fractions else in_fractions(boxes, self.network), scores[kept], threshold)


@dataclass(frozen=True)
class BestRows:
    """A table of the best boxes: left, top, right, bottom, probability, class."""

    network: Network
    rows: int
    classes: int

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """A candidate per row; unknown classes are dropped."""
        table = as_table(outputs[0], self.rows)
        fractions = np.abs(table[:, :4]).max() <= _LARGEST_FRACTION
        chosen = np.rint(table[:, 5])
        kept = np.flatnonzero((table[:, 4] > threshold) & (chosen >= 0) & (chosen < self.classes))
        boxes = from_corners(table[kept, :4])
        scores = np.zeros((len(kept), self.classes), np.float32)
        scores[np.arange(len(kept)), chosen[kept].astype(np.intp)] = table[kept, 4]
        return found(boxes if fractions else in_fractions(boxes, self.network), scores, threshold)


def _scores(table: Floats, objectness: bool, classes: int) -> Floats:
    return table[:, 4:5] * table[:, 5 : 5 + classes] if objectness else table[:, 4 : 4 + classes]


def _strides_of(shape: Shape, network: Network, per_cell: int) -> tuple[tuple[int, ...], int] | None:
    """The strides of a table with `per_cell` rows per cell, and its columns."""
    for strides in (STRIDES, _STRIDES_OF_SIX):
        columns = columns_of(shape, per_cell * network.count(strides))
        if columns is not None:
            return strides, columns
    return None


def _classes(columns: int, before: int, network: Network) -> int | None:
    """The classes after `before` columns; further columns, of masks or key points, follow the named ones."""
    classes = columns - before
    if network.names is not None and 0 < network.names < classes:
        return network.names
    return classes if classes > 0 else None


def _read_yolov5(shapes: Sequence[Shape], network: Network) -> Rows | None:
    return _read_rows(shapes, network, _ANCHORS, objectness=True)


def _read_yolov6(shapes: Sequence[Shape], network: Network) -> Rows | None:
    return _read_rows(shapes, network, 1, objectness=True)


def _read_yolov8(shapes: Sequence[Shape], network: Network) -> Rows | None:
    return _read_rows(shapes, network, 1, objectness=False)


def _read_rows(shapes: Sequence[Shape], network: Network, per_cell: int, *, objectness: bool) -> Rows | None:
    fit = _strides_of(shapes[0], network, per_cell)
    if fit is None:
        return None
    strides, columns = fit
    classes = _classes(columns, 5 if objectness else 4, network)
    if classes is None:
        return None
    return Rows(network, per_cell * network.count(strides), classes, objectness)


def _read_yolox(shapes: Sequence[Shape], network: Network) -> OffsetRows | None:
    rows = _read_rows(shapes, network, 1, objectness=True)
    if rows is None:
        return None
    strides = STRIDES if rows.rows == network.count(STRIDES) else _STRIDES_OF_SIX
    return OffsetRows(network, strides, rows.classes)


def _read_two_tables(shapes: Sequence[Shape], network: Network) -> TwoTables | None:
    if len(shapes) != 2:
        return None
    for boxes in (0, 1):
        fit = _strides_of(shapes[boxes], network, 1)
        rows = network.count(fit[0]) if fit is not None and fit[1] == 4 else 0
        classes = columns_of(shapes[1 - boxes], rows) if rows else None
        if classes is not None:
            return TwoTables(network, rows, boxes, classes)
    return None


def _read_yolov10(shapes: Sequence[Shape], network: Network) -> BestRows | None:
    axes = tuple(size for size in shapes[0] if size != 1)
    if len(shapes) != 1 or len(axes) != 2 or axes[1] != 6 or axes[0] > _MOST_ROWS:
        return None
    return BestRows(network, axes[0], network.names or _COCO_CLASSES)


def _by_column(shapes: Sequence[Shape], network: Network) -> bool:
    """Whether a table with a row per cell is YOLOv8's and not YOLOX's: names tell, or else its order."""
    columns = (_strides_of(shapes[0], network, 1) or ((), 0))[1]
    if network.names in (columns - 4, columns - 5):
        return columns - 4 == network.names
    axes = [size for size in shapes[0] if size != 1]
    return axes[:1] == [columns]


def _by_row(shapes: Sequence[Shape], network: Network) -> bool:
    return not _by_column(shapes, network)


KINDS = (
    DecoderKind(
        word="yolo_nas", what="YOLO-NAS and PP-YOLOE, corners and classes", read=_read_two_tables, overlap=0.7
    ),
    DecoderKind(word="yolov5", what="YOLOv5 and v7, decoded", read=_read_yolov5, overlap=0.45),
    DecoderKind(word="yolov6", what="YOLOv6, decoded", read=_read_yolov6, overlap=0.45, looks=never),
    DecoderKind(
        word="yolov8",
        what="YOLOv8, v9, v11 and v12, decoded",
        read=_read_yolov8,
        overlap=0.7,
        looks=_by_column,
    ),
    DecoderKind(
        word="yolox",
        what="YOLOX, offsets from cells",
        read=_read_yolox,
        overlap=0.65,
        looks=_by_row,
        pictures=PictureRules(resize="letterbox_top_left", std=(1.0,), colors="bgr", fill=114.0),
    ),
    DecoderKind(word="yolov10", what="YOLOv10 and v26, best boxes", read=_read_yolov10, overlap=None),
)
