"""Face detectors: YuNet and BlazeFace. Key points are not read."""

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
    in_fractions,
    sigmoid,
)
from harness.accuracy.decoders.yolo_heads import Head, cell_table, heads_of
from harness.accuracy.picture_rules import PictureRules

_YUNET_STRIDES = (8, 16, 32)
_BOX = 4  # columns

# BlazeFace's anchors are squares of the input's size at the centres of cells: cells per side, and anchors per
# cell, by the number of boxes.
_BLAZEFACE = {896: ((16, 2), (8, 6)), 2304: ((48, 1),)}
_LARGEST_LOGIT = 100.0


@dataclass(frozen=True)
class YuNet:
    """Of each stride a class probability, an objectness, a box and key points."""

    network: Network
    chances: Sequence[Head]  # class and objectness of each stride
    boxes: Sequence[Head]
    classes: int = 1

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """The score is the geometric mean of class and objectness."""
        scores = np.concatenate([self._score(outputs, stride) for stride in _YUNET_STRIDES])
        kept = above(scores, threshold)
        table = np.concatenate(
            [cell_table(outputs[head.output], self.network, head.stride) for head in self.boxes]
        )[kept]
        grid = Grid.of(self.network, _YUNET_STRIDES)
        cells = np.stack([grid.x, grid.y], axis=1)[kept]
        boxes = np.concatenate([table[:, :2] + cells, exponential(table[:, 2:])], axis=1)
        return found(in_fractions(boxes * grid.stride[kept, None], self.network), scores[kept], threshold)

    def _score(self, outputs: Sequence[Floats], stride: int) -> Floats:
        one, other = (
            np.clip(cell_table(outputs[head.output], self.network, stride), 0, 1)
            for head in self.chances
            if head.stride == stride
        )
        return np.asarray(np.sqrt(one * other), np.float32)


@dataclass(frozen=True)
class BlazeFace:
    """A logit, and a box in pixels from its anchor's centre, per anchor."""

    network: Network
    rows: int
    boxes: int  # the place of the boxes among the outputs
    classes: int = 1

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Boxes are the first four columns; key points follow."""
        logits = np.clip(as_table(outputs[1 - self.boxes], self.rows), -_LARGEST_LOGIT, _LARGEST_LOGIT)
        scores = sigmoid(logits)
        kept = above(scores, threshold)
        boxes = in_fractions(as_table(outputs[self.boxes], self.rows)[kept, :_BOX], self.network)
        boxes[:, :2] += _anchors(self.rows)[kept]
        return found(boxes, scores[kept], threshold)


def _anchors(rows: int) -> Floats:
    """[rows, 2] centres in fractions."""
    parts = []
    for cells, each in _BLAZEFACE[rows]:
        down, across = np.divmod(np.arange(cells * cells), cells)
        parts.append(np.repeat(np.stack([across, down], axis=1) + 0.5, each, axis=0) / cells)
    return np.concatenate(parts).astype(np.float32)


def _read_yunet(shapes: Sequence[Shape], network: Network) -> YuNet | None:
    heads = heads_of(shapes, network, _YUNET_STRIDES) or []
    chances: list[Head] = []
    boxes: list[Head] = []
    for stride in _YUNET_STRIDES:
        here = [head for head in heads if head.stride == stride]
        if sorted(head.columns for head in here)[:3] != [1, 1, _BOX]:
            return None
        chances += [head for head in here if head.columns == 1]
        boxes += [head for head in here if head.columns == _BOX]
    return YuNet(network, chances, boxes)


def _read_blazeface(shapes: Sequence[Shape], network: Network) -> BlazeFace | None:
    for rows in _BLAZEFACE:
        columns = [columns_of(shape, rows) or 0 for shape in shapes]
        if len(columns) == 2 and min(columns) == 1 and max(columns) >= _BOX:
            return BlazeFace(network, rows, columns.index(max(columns)))
    return None


KINDS = (
    DecoderKind(
        word="yunet",
        what="YuNet",
        read=_read_yunet,
        overlap=0.45,
        pictures=PictureRules(resize="letterbox_top_left", std=(1.0,), colors="bgr", fill=0.0),
    ),
    DecoderKind(
        word="blazeface",
        what="BlazeFace",
        read=_read_blazeface,
        overlap=0.3,
        pictures=PictureRules(resize="letterbox", mean=(127.5,), std=(127.5,), fill=0.0),
    ),
)
