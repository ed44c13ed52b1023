"""What every decoder shares: what it knows of a network, what it promises, and the arithmetic of grids.

Outputs come in the model's own order and shapes, without the batch. Axes of length one and the order of rows
and columns differ between exporters, so decoders accept them all: `columns_of` and `as_table`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.accuracy.boxes import Candidates, Floats
from harness.accuracy.picture_rules import PictureRules

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PriorBoxes:
    """Boxes that encodings refer to."""

    boxes: Floats  # [boxes, 4] centre y, centre x, height, width in fractions
    scales: tuple[float, float, float, float]  # by which encodings y, x, height, width are multiplied
    classes: int | None = None  # the last columns of the scores; None: all but the first, the background


@dataclass(frozen=True, kw_only=True)
class Network:
    """What is known of a network besides the shapes of its outputs."""

    height: int  # of its input, in pixels
    width: int
    names: int | None = None  # number of class names, where it comes with names
    priors: PriorBoxes | None = None  # where the model has its own
    anchors: tuple[float, ...] = ()  # widths and heights in pixels, where the cfg states them

    def cells(self, stride: int) -> tuple[int, int]:
        """Rows and columns of the grid of a stride."""
        return math.ceil(self.height / stride), math.ceil(self.width / stride)

    def count(self, strides: Sequence[int]) -> int:
        """The number of cells of several grids."""
        return sum(math.prod(self.cells(stride)) for stride in strides)


# As Ultralytics trains.
LETTERBOX = PictureRules(resize="letterbox", fill=114.0)


class Decoder(Protocol):
    """Reads the outputs of one network, whose shapes it was made for."""

    @property
    def classes(self) -> int:
        """The number of classes, without a background."""

    def candidates(self, outputs: Sequence[Floats], threshold: float) -> Candidates:
        """The boxes with a probability above the threshold in one picture's outputs."""


def always(_shapes: Sequence[Shape], _network: Network) -> bool:
    """Shapes that fit this kind fit no other."""
    return True


def never(_shapes: Sequence[Shape], _network: Network) -> bool:
    """Shapes cannot tell this kind from another; decoder= names it."""
    return False


@dataclass(frozen=True, kw_only=True)
class DecoderKind:
    """A family of networks that one decoder reads."""

    word: str  # as in decoder=
    what: str  # for messages and documentation
    read: Callable[[Sequence[Shape], Network], Decoder | None]  # None: the shapes do not fit
    overlap: float | None  # IoU above which a box of the same class is suppressed; None: no suppression
    most: int = 300  # detections per picture in the family's own evaluation
    pictures: PictureRules = LETTERBOX  # as usual in the family
    looks: Callable[[Sequence[Shape], Network], bool] = always  # where shapes fit several kinds


@dataclass(frozen=True)
class Grid:
    """The cells of several strides, by stride and then by row."""

    x: Floats  # [cells] column of each cell
    y: Floats  # [cells] row
    stride: Floats  # [cells] pixels

    @staticmethod
    def of(network: Network, strides: Sequence[int], per_cell: int = 1) -> Grid:
        """The cells of a network's input, each `per_cell` times."""
        x, y, steps = [], [], []
        for stride in strides:
            rows, columns = network.cells(stride)
            down, across = np.divmod(np.arange(rows * columns * per_cell) // per_cell, columns)
            x.append(across)
            y.append(down)
            steps.append(np.full(len(across), stride))
        joined = [np.concatenate(parts).astype(np.float32) for parts in (x, y, steps)]
        return Grid(*joined)


def columns_of(shape: Shape, rows: int) -> int | None:
    """The columns of a table of `rows` rows, which may be stored row by row or column by column.

    None if the shape is not such a table. Axes of length one do not count.
    """
    axes = tuple(size for size in shape if size != 1)
    if axes == (rows,):
        return 1
    if len(axes) != 2 or rows not in axes:
        return None
    return axes[1] if axes[0] == rows else axes[0]


def as_table(values: Floats, rows: int) -> Floats:
    """[rows, columns] of values whose shape `columns_of` accepts."""
    axes = tuple(size for size in values.shape if size != 1)
    if len(axes) == 2 and axes[0] != rows:
        return np.ascontiguousarray(values.reshape(axes).T)
    return values.reshape(rows, -1)


def sigmoid(values: Floats) -> Floats:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def softmax(values: Floats) -> Floats:
    """Along the last axis."""
    if not values.size:
        return values
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def probabilities(values: Floats) -> Floats:
    """The values as probabilities: those that exporters left as logits, which reach below zero, go through a
    sigmoid."""
    return sigmoid(values) if values.size and (values.min() < 0 or values.max() > _ABOVE_ONE) else values


def expectation(values: Floats, bins: int) -> Floats:
    """[k, 4] distances from [k, 4 * bins] logits: the mean of each side's distribution (Li et al.,
    Generalized Focal Loss, 2020), in strides."""
    chances = softmax(values.reshape(len(values), 4, bins))
    return np.asarray(chances @ np.arange(bins, dtype=np.float32), np.float32)


def exponential(values: Floats) -> Floats:
    """exp(x), infinite where it overflows."""
    with np.errstate(over="ignore"):
        return np.exp(values)


def above(scores: Floats, threshold: float) -> npt.NDArray[np.intp]:
    """The rows of [n, classes] with a score above the threshold."""
    return np.flatnonzero((scores > threshold).any(axis=1))


def from_corners(corners: Floats) -> Floats:
    """[k, 4] centre x, centre y, width, height of left, top, right, bottom."""
    low, high = corners[:, :2], corners[:, 2:]
    return np.concatenate([(low + high) / 2, high - low], axis=1)


def from_sides(centres: Floats, sides: Floats) -> Floats:
    """[k, 4] boxes around [k, 2] centres with the distances [k, 4] left, top, right, bottom."""
    return from_corners(np.concatenate([centres - sides[:, :2], centres + sides[:, 2:]], axis=1))


def in_fractions(boxes: Floats, network: Network) -> Floats:
    """Boxes in pixels as fractions of the network's input."""
    unit = np.array([network.width, network.height, network.width, network.height], np.float32)
    return np.asarray(boxes / unit, np.float32)


def found(boxes: Floats, scores: Floats, threshold: float) -> Candidates:
    """Candidates from boxes [k, 4] in fractions and scores [k, classes]."""
    return Candidates(
        boxes=np.asarray(boxes, np.float32),
        probabilities=np.where(scores > threshold, scores, 0).astype(np.float32),
    )


_ABOVE_ONE = 1 + 1e-3  # probabilities reach 1, and slightly more after quantisation
