"""Detectors trained with the generalised focal loss: NanoDet, NanoDet-Plus and PicoDet.

Each side of a box is a distribution over distances from the cell's centre, in strides. Outputs are, of each
stride, the classes and the sides in two tensors, or all strides and both in one table (NanoDet-Plus).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

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
    probabilities,
)
from harness.accuracy.decoders.yolo_heads import Head, cell_table, heads_of
from harness.accuracy.picture_rules import PictureRules

_BINS = 8  # of a side's distribution
_STRIDES = (8, 16, 32)
_STRIDES_OF_FOUR = (8, 16, 32, 64)

# ImageNet's, in the order red, green, blue.
_MEAN, _STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_NANODET = PictureRules(resize="stretch", mean=_MEAN[::-1], std=_STD[::-1], colors="bgr")


@dataclass(frozen=True)
class Distances:
    """Classes and sides of all strides.

    A cell's centre is at (x + share) * stride + shift, in pixels.
    """

    network: Network
    strides: Sequence[int]
    classes: int
    pairs: Sequence[tuple[Head, Head]]  # classes and sides of each stride; none: one table of both
    share: float
    shift: float

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Distances are the distributions' means."""
        scores, sides = self._tables(outputs)
        kept = above(scores, threshold)
        grid = Grid.of(self.network, self.strides)
        stride = grid.stride[kept, None]
        cells = np.stack([grid.x, grid.y], axis=1)[kept]
        centres = (cells + np.float32(self.share)) * stride + np.float32(self.shift)
        boxes = from_sides(centres, expectation(sides[kept], _BINS) * stride)
        return found(in_fractions(boxes, self.network), scores[kept], threshold)

    def _tables(self, outputs: Sequence[Floats]) -> tuple[Floats, Floats]:
        if not self.pairs:
            table = as_table(outputs[0], self.network.count(self.strides))
            return probabilities(table[:, : self.classes]), table[:, self.classes :]
        scores, sides = (
            np.concatenate([cell_table(outputs[head.output], self.network, head.stride) for head in heads])
            for heads in zip(*self.pairs, strict=True)
        )
        return probabilities(scores), sides


def _read_pairs(
    shapes: Sequence[Shape], network: Network, *, strides: Sequence[int], share: float, shift: float
) -> Distances | None:
    heads = heads_of(shapes, network, strides) or []
    pairs = []
    for stride in strides:
        scores_and_sides = sorted(
            (head for head in heads if head.stride == stride), key=lambda head: head.columns == 4 * _BINS
        )
        if len(scores_and_sides) != 2 or scores_and_sides[1].columns != 4 * _BINS:
            return None
        pairs.append((scores_and_sides[0], scores_and_sides[1]))
    if len({scores.columns for scores, _ in pairs}) != 1 or len(heads) != 2 * len(strides):
        return None
    return Distances(network, strides, pairs[0][0].columns, pairs, share, shift)


def _read_table(shapes: Sequence[Shape], network: Network) -> Distances | None:
    columns = columns_of(shapes[0], network.count(_STRIDES_OF_FOUR)) if len(shapes) == 1 else None
    if columns is None or columns <= 4 * _BINS:
        return None
    return Distances(network, _STRIDES_OF_FOUR, columns - 4 * _BINS, (), 0.0, 0.0)


KINDS = (
    DecoderKind(
        word="nanodet",
        what="NanoDet, classes and distances of three strides",
        # Pixel centres of the stride's cells are numbered from zero.
        read=partial(_read_pairs, strides=_STRIDES, share=0.5, shift=-0.5),
        overlap=0.6,
        most=100,
        pictures=_NANODET,
    ),
    DecoderKind(
        word="picodet",
        what="PicoDet, classes and distances of four strides",
        read=partial(_read_pairs, strides=_STRIDES_OF_FOUR, share=0.5, shift=0.0),
        overlap=0.6,
        most=100,
        pictures=PictureRules(resize="stretch", mean=_MEAN, std=_STD),
    ),
    DecoderKind(
        word="nanodet_plus",
        what="NanoDet-Plus, one table of four strides",
        read=_read_table,
        overlap=0.6,
        most=100,
        pictures=_NANODET,
    ),
)
