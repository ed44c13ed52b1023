"""Single-shot detectors with priors: boxes relative to a fixed set of boxes.

- TensorFlow's SSD with the inputs of TFLite_Detection_PostProcess: encodings, class scores and, as a third
  output or beside the cfg, anchors. Without them those of the Object Detection API's default are generated.
- UltraFace, with boxes decoded in the graph or left as encodings of its own priors.

Encodings are offsets of the centre in priors' sizes and logarithms of sizes, times a scale (the reciprocal of
what others call a variance).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.accuracy.boxes import Candidates, Floats
from harness.accuracy.decoders.base import (
    DecoderKind,
    Network,
    Shape,
    above,
    as_table,
    columns_of,
    exponential,
    found,
    from_corners,
    probabilities,
)
from harness.accuracy.picture_rules import PictureRules

# TensorFlow's default: encodings of x, y, width and height are multiplied by these.
_SCALES = (10.0, 10.0, 5.0, 5.0)
_SWAPPED = (1, 0, 3, 2)

# Of the Object Detection API: relative sizes of boxes from the first to the last feature map.
_SMALLEST, _LARGEST = 0.2, 0.95
_MAPS = 6
_FIRST_STRIDE = 16

# UltraFace: sides of boxes in pixels, of each stride.
_FACES = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}

# At least this share of boxes that are corners, and not encodings, has its right lower corner there.
_ORDERED = 0.9


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Boxes and scores, in two outputs of as many rows."""

    rows: int
    classes: int
    boxes: int  # the place of the boxes among the outputs
    scores: int
    priors: Floats | None  # centre x, centre y, width, height in fractions; None: the third output, as below
    scales: tuple[float, float, float, float] = _SCALES
    corners: bool = False  # the boxes may be decoded: left, top, right, bottom in fractions
    rows_first: bool = False  # y before x, and height before width, in encodings and in the third output

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """Boxes decoded with their priors; a background comes before the classes."""
        scores = probabilities(as_table(outputs[self.scores], self.rows))[:, -self.classes :]
        kept = above(scores, threshold)
        values = as_table(outputs[self.boxes], self.rows)
        if self.corners and _are_corners(values):
            return found(from_corners(values[kept]), scores[kept], threshold)
        priors = self.priors
        if priors is None:
            priors = as_table(outputs[2], self.rows)[:, _SWAPPED]
        encoded = values[kept][:, _SWAPPED] if self.rows_first else values[kept]
        encoded = np.asarray(encoded / np.array(self.scales, np.float32), np.float32)
        return found(_decoded(encoded, priors[kept]), scores[kept], threshold)


def _decoded(encoded: Floats, priors: Floats) -> Floats:
    """[k, 4] boxes of encodings [k, 4] x, y, width, height."""
    centres = priors[:, :2] + encoded[:, :2] * priors[:, 2:]
    return np.concatenate([centres, exponential(encoded[:, 2:]) * priors[:, 2:]], axis=1)


def _are_corners(boxes: Floats) -> bool:
    """Whether boxes are corners: encodings have either sign."""
    return bool((boxes[:, 2:] > boxes[:, :2]).all(axis=1).mean() >= _ORDERED)


def _boxes_and_scores(shapes: Sequence[Shape], rows: int) -> tuple[int, int, int] | None:
    """The places of boxes and scores among two outputs, and the scores' columns."""
    columns = [columns_of(shape, rows) for shape in shapes[:2]]
    if columns[0] == 4 and (columns[1] or 0) > 1:
        return 0, 1, columns[1] or 0
    if columns[1] == 4 and (columns[0] or 0) > 1:
        return 1, 0, columns[0] or 0
    return None


def _read_tensorflow(shapes: Sequence[Shape], network: Network) -> Priors | None:
    if len(shapes) not in (2, 3):
        return None
    own = network.priors
    priors: Floats | None = None
    if own is not None:
        priors = own.boxes[:, _SWAPPED]
    elif len(shapes) == 2:
        priors = tensorflow_priors(network)
    rows = max(shapes[0], default=0) if priors is None else len(priors)
    places = _boxes_and_scores(shapes, rows)
    if places is None or (priors is None and columns_of(shapes[2], rows) != 4):
        return None
    boxes, scores, columns = places
    y, x, height, width = own.scales if own else (_SCALES[1], _SCALES[0], _SCALES[3], _SCALES[2])
    return Priors(
        rows=rows,
        classes=(own.classes if own else None) or columns - 1,
        boxes=boxes,
        scores=scores,
        priors=priors,
        scales=(x, y, width, height),
        rows_first=True,
    )


def _read_ultraface(shapes: Sequence[Shape], network: Network) -> Priors | None:
    priors = ultraface_priors(network)
    places = _boxes_and_scores(shapes, len(priors)) if len(shapes) == 2 else None
    if places is None:
        return None
    boxes, scores, columns = places
    return Priors(
        rows=len(priors), classes=columns - 1, boxes=boxes, scores=scores, priors=priors, corners=True
    )


def ultraface_priors(network: Network) -> Floats:
    """[boxes, 4] centre x, centre y, width, height in fractions, clipped to the picture."""
    parts = []
    for stride, sides in _FACES.items():
        rows, columns = network.cells(stride)
        y, x, side = np.meshgrid(
            # Cells of the coarsest grid reach beyond the picture.
            (np.arange(rows) + 0.5) * stride / network.height,
            (np.arange(columns) + 0.5) * stride / network.width,
            sides,
            indexing="ij",
        )
        parts.append(np.stack([x, y, side / network.width, side / network.height], axis=-1).reshape(-1, 4))
    return np.asarray(np.clip(np.concatenate(parts), 0, 1), np.float32)


def tensorflow_priors(network: Network) -> Floats:
    """[boxes, 4] centre x, centre y, width, height in fractions: six maps, three boxes per cell in the first
    and six in the others."""
    scales = [_SMALLEST + (_LARGEST - _SMALLEST) * place / (_MAPS - 1) for place in range(_MAPS)] + [1.0]
    parts = []
    for place, (scale, following) in enumerate(itertools.pairwise(scales)):
        stride = _FIRST_STRIDE << place
        rows, columns = network.cells(stride)
        boxes = [(scale, 1.0), (scale, 2.0), (scale, 0.5)]
        boxes += [(scale, 3.0), (scale, 1 / 3), (math.sqrt(scale * following), 1.0)]
        if place == 0:
            boxes = [(0.1, 1.0), *boxes[1:3]]
        sizes = [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for size, ratio in boxes]
        down, across = np.divmod(np.arange(rows * columns), columns)
        centres = np.stack([(across + 0.5) / columns, (down + 0.5) / rows], axis=1)
        parts.append(
            np.concatenate(
                [np.repeat(centres, len(sizes), axis=0), np.tile(sizes, (len(centres), 1))], axis=1
            )
        )
    return np.concatenate(parts).astype(np.float32)


KINDS = (
    DecoderKind(
        word="ultraface",
        what="UltraFace, decoded or not",
        read=_read_ultraface,
        overlap=0.3,
        pictures=PictureRules(resize="stretch", mean=(127.0,), std=(128.0,)),
    ),
    DecoderKind(
        word="ssd",
        what="SSD: encodings and scores, and anchors in a third output or beside the cfg",
        read=_read_tensorflow,
        overlap=0.6,
        pictures=PictureRules(resize="stretch", mean=(127.5,), std=(127.5,)),
    ),
)
