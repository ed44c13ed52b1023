"""Detectors with one coarse or fine map: FastestDet and CenterNet."""

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
    found,
    in_fractions,
    probabilities,
    sigmoid,
)
from harness.accuracy.decoders.yolo_heads import Head, cell_table, heads_of
from harness.accuracy.picture_rules import PictureRules

FASTESTDET_STRIDE = 16
_OBJECTNESS_POWER, _CLASS_POWER = 0.6, 0.4
_CENTERNET_STRIDE = 4
_MOST_PEAKS = 100


@dataclass(frozen=True)
class FastestDet:
    """Objectness, box and classes of each cell; objectness and classes are probabilities."""

    network: Network
    classes: int

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Offsets are hyperbolic tangents in cells, sizes sigmoids in pictures."""
        table = cell_table(outputs[0], self.network, FASTESTDET_STRIDE)
        objectness, classes = np.clip(table[:, :1], 0, None), np.clip(table[:, 5:], 0, None)
        scores = objectness**_OBJECTNESS_POWER * classes**_CLASS_POWER
        kept = above(scores, threshold)
        grid = Grid.of(self.network, [FASTESTDET_STRIDE])
        rows, columns = self.network.cells(FASTESTDET_STRIDE)
        cells = np.stack([grid.x, grid.y], axis=1)[kept]
        centres = (cells + np.tanh(table[kept, 1:3])) / np.array([columns, rows], np.float32)
        boxes = np.concatenate([centres, sigmoid(table[kept, 3:5])], axis=1)
        return found(boxes, scores[kept], threshold)


@dataclass(frozen=True)
class CenterNet:
    """A heat map of centres per class, and maps of sizes and of offsets, in cells."""

    network: Network
    heat: Head
    size: Head
    offset: Head | None

    @property
    def classes(self) -> int:
        """The heat map's channels."""
        return self.heat.columns

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Peaks of the heat map: cells that no neighbour of the same class exceeds."""
        tables = {
            head.output: cell_table(outputs[head.output], self.network, head.stride)
            for head in (self.heat, self.size, self.offset)
            if head is not None
        }
        grid = Grid.of(self.network, [_CENTERNET_STRIDE])
        scores = self._peaks(probabilities(tables[self.heat.output]))
        kept = above(scores, threshold)
        centres = np.stack([grid.x, grid.y], axis=1)[kept]
        centres += np.float32(0.5) if self.offset is None else tables[self.offset.output][kept]
        boxes = np.concatenate([centres, tables[self.size.output][kept]], axis=1) * _CENTERNET_STRIDE
        return found(in_fractions(boxes, self.network), scores[kept], threshold)

    def _peaks(self, heat: Floats) -> Floats:
        """[cells, classes] with zero except at the best peaks."""
        rows, columns = self.network.cells(_CENTERNET_STRIDE)
        image = heat.reshape(rows, columns, -1)
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
        peaks = np.where(image >= windows.max(axis=(-2, -1)), image, 0).reshape(heat.shape)
        least = np.partition(peaks, -_MOST_PEAKS, axis=None)[-_MOST_PEAKS] if peaks.size > _MOST_PEAKS else 0
        return np.where(peaks >= least, peaks, 0)


def _read_fastestdet(shapes: Sequence[Shape], network: Network) -> FastestDet | None:
    heads = heads_of(shapes, network, [FASTESTDET_STRIDE]) or []
    if len(heads) != 1 or heads[0].columns <= 5:
        return None
    return FastestDet(network, heads[0].columns - 5)


def _read_centernet(shapes: Sequence[Shape], network: Network) -> CenterNet | None:
    heads = heads_of(shapes, network, [_CENTERNET_STRIDE]) or []
    pairs = [head for head in heads if head.columns == 2]
    others = [head for head in heads if head.columns != 2]
    if len(others) > 1 or not pairs or len(heads) not in (2, 3):
        return None
    # With two classes all three have two channels: the heat map comes first.
    heat = others[0] if others else pairs.pop(0)
    if not pairs:
        return None
    return CenterNet(network, heat, pairs[0], pairs[1] if len(pairs) > 1 else None)


def _has_its_classes(shapes: Sequence[Shape], network: Network) -> bool:
    """A single map may be anything: the number of names, where there are some, has to fit."""
    return network.names is None or 5 + network.names in shapes[0]


KINDS = (
    DecoderKind(
        word="fastestdet",
        what="FastestDet",
        read=_read_fastestdet,
        overlap=0.45,
        most=100,
        looks=_has_its_classes,
        pictures=PictureRules(resize="stretch", colors="bgr"),
    ),
    DecoderKind(
        word="centernet",
        what="CenterNet: heat map, sizes, offsets",
        read=_read_centernet,
        overlap=None,
        most=_MOST_PEAKS,
        pictures=PictureRules(
            resize="letterbox",
            mean=(104.04, 113.985, 119.85),
            std=(73.695, 69.87, 70.89),
            colors="bgr",
            fill=0.0,
        ),
    ),
)
