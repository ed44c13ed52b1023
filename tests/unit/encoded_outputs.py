"""Outputs of networks that see one object, written from the networks' own definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

WIDTH, HEIGHT, CLASSES = 128, 64, 5
STRIDES, FOUR_STRIDES = (8, 16, 32), (8, 16, 32, 64)
LOW = -9.0  # the logit of nothing


@dataclass(frozen=True)
class Object:
    """An object in pixels of the input."""

    x: float = 70.0
    y: float = 37.0
    width: float = 30.0
    height: float = 22.0
    class_id: int = 3
    score: float = 0.8

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        half = self.width / 2, self.height / 2
        return self.x - half[0], self.y - half[1], self.x + half[0], self.y + half[1]


def logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def cells(stride: int) -> tuple[int, int]:
    """Rows and columns."""
    return math.ceil(HEIGHT / stride), math.ceil(WIDTH / stride)


def row_of(seen: Object, strides: Sequence[int], stride: int, per_cell: int = 1) -> int:
    """The row of the object's cell in a table of all strides."""
    before = sum(math.prod(cells(each)) for each in strides[: strides.index(stride)])
    column, row = int(seen.x // stride), int(seen.y // stride)
    return (before + row * cells(stride)[1] + column) * per_cell


def rows(strides: Sequence[int]) -> int:
    return sum(math.prod(cells(each)) for each in strides)


def table(count: int, columns: int, row: int, values: Sequence[float], fill: float = 0.0) -> Floats:
    found = np.full((count, columns), fill, np.float32)
    found[row] = values
    return found


def one_hot(seen: Object, value: float, other: float = 0.0) -> list[float]:
    return [value if number == seen.class_id else other for number in range(CLASSES)]


def spread(distance: float, bins: int) -> list[float]:
    """Logits of a distribution with this mean: two neighbours share it."""
    low = int(distance)
    chances = np.full(bins, 1e-9)
    chances[low] = 1 - (distance - low)
    chances[min(low + 1, bins - 1)] += distance - low
    return list(np.log(chances + 1e-9))


def sides(seen: Object, x: float, y: float, stride: int, bins: int) -> list[float]:
    """The four distributions of the distances from a point in pixels."""
    left, top, right, bottom = seen.corners
    each = (x - left, y - top, right - x, bottom - y)
    return [value for side in each for value in spread(side / stride, bins)]


def yolov5(seen: Object) -> list[Floats]:
    row = row_of(seen, STRIDES, 16)
    values = [seen.x, seen.y, seen.width, seen.height, seen.score, *one_hot(seen, 1.0)]
    everywhere = table(3 * rows(STRIDES), 5 + CLASSES, 3 * row, values)
    everywhere[-1, :2] = WIDTH, HEIGHT  # coordinates are pixels
    return [everywhere]


def yolov8(seen: Object) -> list[Floats]:
    values = [seen.x, seen.y, seen.width, seen.height, *one_hot(seen, seen.score)]
    return [table(rows(STRIDES), 4 + CLASSES, row_of(seen, STRIDES, 16), values).T]


def yolov8_in_fractions(seen: Object) -> list[Floats]:
    found = yolov8(seen)[0].copy()
    found[:4] /= np.array([[WIDTH], [HEIGHT], [WIDTH], [HEIGHT]], np.float32)
    return [found]


def yolox(seen: Object) -> list[Floats]:
    column, row = seen.x // 16, seen.y // 16
    values = [
        *(seen.x / 16 - column, seen.y / 16 - row),
        *(math.log(seen.width / 16), math.log(seen.height / 16)),
        *(seen.score, *one_hot(seen, 1.0)),
    ]
    return [table(rows(STRIDES), 5 + CLASSES, row_of(seen, STRIDES, 16), values)]


def yolov10(seen: Object) -> list[Floats]:
    return [table(300, 6, 0, [*seen.corners, seen.score, seen.class_id])]


def yolo_nas(seen: Object) -> list[Floats]:
    row = row_of(seen, STRIDES, 16)
    return [
        table(rows(STRIDES), 4, row, seen.corners),
        table(rows(STRIDES), CLASSES, row, one_hot(seen, seen.score)),
    ]


def yolov5_heads(seen: Object) -> list[Floats]:
    """The second anchor of the stride 16 is 62 x 45 pixels."""
    found = [np.full((3 * (5 + CLASSES), *cells(stride)), LOW, np.float32) for stride in STRIDES]
    column, row = int(seen.x // 16), int(seen.y // 16)
    values = [
        logit((seen.x / 16 - column + 0.5) / 2),
        logit((seen.y / 16 - row + 0.5) / 2),
        logit(math.sqrt(seen.width / 62) / 2),
        logit(math.sqrt(seen.height / 45) / 2),
        *(logit(seen.score), *one_hot(seen, -LOW, LOW)),
    ]
    found[1][5 + CLASSES : 2 * (5 + CLASSES), row, column] = values
    return found


def yolov5_heads_by_anchor(seen: Object) -> list[Floats]:
    """As the training's own export: [anchors, rows, columns, channels]."""
    return [
        head.reshape(3, 5 + CLASSES, *head.shape[1:]).transpose(0, 2, 3, 1) for head in yolov5_heads(seen)
    ]


def yolov8_heads(seen: Object) -> list[Floats]:
    found = [np.full((64 + CLASSES, *cells(stride)), LOW, np.float32) for stride in STRIDES]
    column, row = int(seen.x // 16), int(seen.y // 16)
    distances = sides(seen, (column + 0.5) * 16, (row + 0.5) * 16, 16, 16)
    found[1][:, row, column] = [*distances, *one_hot(seen, logit(seen.score), LOW)]
    return found


def yolov8_heads_in_two(seen: Object) -> list[Floats]:
    """Of each stride the classes and the sides, channels last, the coarsest grid first."""
    parts = [part.transpose(1, 2, 0) for head in yolov8_heads(seen) for part in (head[64:], head[:64])]
    return parts[4:] + parts[2:4] + parts[:2]


def nanodet(seen: Object) -> list[Floats]:
    """Centres of cells are numbers of pixels, so half a pixel less than half a stride."""
    return distances_of(seen, STRIDES, 16, 0.5 * 16 - 0.5)


def picodet(seen: Object) -> list[Floats]:
    return distances_of(seen, FOUR_STRIDES, 16, 0.5 * 16)


def nanodet_plus(seen: Object) -> list[Floats]:
    found = distances_of(seen, FOUR_STRIDES, 16, 0.0)
    return [
        np.concatenate([np.concatenate(found[:4]), np.concatenate(found[4:])], axis=1),
    ]


def distances_of(seen: Object, strides: Sequence[int], stride: int, centre: float) -> list[Floats]:
    scores = [np.zeros((math.prod(cells(each)), CLASSES), np.float32) for each in strides]
    tables = [np.zeros((math.prod(cells(each)), 32), np.float32) for each in strides]
    column, row = int(seen.x // stride), int(seen.y // stride)
    place = row * cells(stride)[1] + column
    chosen = strides.index(stride)
    scores[chosen][place] = one_hot(seen, seen.score)
    tables[chosen][place] = sides(seen, column * stride + centre, row * stride + centre, stride, 8)
    return [*scores, *tables]


def fastestdet(seen: Object) -> list[Floats]:
    found = np.zeros((5 + CLASSES, *cells(16)), np.float32)
    column, row = int(seen.x // 16), int(seen.y // 16)
    found[:, row, column] = [
        seen.score,
        *(math.atanh(seen.x / 16 - column), math.atanh(seen.y / 16 - row)),
        *(logit(seen.width / WIDTH), logit(seen.height / HEIGHT)),
        *one_hot(seen, seen.score),
    ]
    return [found]


def centernet(seen: Object) -> list[Floats]:
    rows_, columns = cells(4)
    heat = np.full((CLASSES, rows_, columns), LOW, np.float32)
    size, offset = np.zeros((2, rows_, columns), np.float32), np.zeros((2, rows_, columns), np.float32)
    column, row = int(seen.x // 4), int(seen.y // 4)
    heat[seen.class_id, row - 1 : row + 2, column - 1 : column + 2] = logit(seen.score / 2)
    heat[seen.class_id, row, column] = logit(seen.score)
    size[:, row, column] = seen.width / 4, seen.height / 4
    offset[:, row, column] = seen.x / 4 - column, seen.y / 4 - row
    return [heat, size, offset]


def ssd(seen: Object) -> list[Floats]:
    """Encodings y, x, height, width of the one prior that is not far away."""
    prior = (0.5, 0.5, 0.4, 0.3)  # centre y, centre x, height, width
    encoding = [
        10 * (seen.y / HEIGHT - prior[0]) / prior[2],
        10 * (seen.x / WIDTH - prior[1]) / prior[3],
        5 * math.log(seen.height / HEIGHT / prior[2]),
        5 * math.log(seen.width / WIDTH / prior[3]),
    ]
    return [
        table(7, 4, 2, encoding),
        table(7, 1 + CLASSES, 2, [0.1, *one_hot(seen, seen.score)]),
        table(7, 4, 2, prior, fill=0.9),
    ]


def faces(seen: Object) -> int:
    """UltraFace's prior of 32 pixels in the object's cell: strides 8, 16, 32 and 64 have 3, 2, 2 and 3."""
    column, row = int(seen.x // 16), int(seen.y // 16)
    return 3 * math.prod(cells(8)) + 2 * (row * cells(16)[1] + column)


def ultraface(seen: Object) -> list[Floats]:
    count = 3 * math.prod(cells(8)) + 2 * (math.prod(cells(16)) + math.prod(cells(32)))
    count += 3 * math.prod(cells(64))
    left, top, right, bottom = seen.corners
    corners = [left / WIDTH, top / HEIGHT, right / WIDTH, bottom / HEIGHT]
    boxes = np.tile(np.array([[0.1, 0.1, 0.2, 0.3]], np.float32), (count, 1))
    boxes[faces(seen)] = corners
    return [table(count, 2, faces(seen), [1 - seen.score, seen.score]), boxes]


def ultraface_encoded(seen: Object) -> list[Floats]:
    scores, boxes = ultraface(seen)
    x, y = 16 * (int(seen.x // 16) + 0.5), 16 * (int(seen.y // 16) + 0.5)
    boxes[:] = np.random.default_rng(1).normal(size=boxes.shape)
    boxes[faces(seen)] = [
        *(10 * (seen.x - x) / 32, 10 * (seen.y - y) / 32),
        *(5 * math.log(seen.width / 32), 5 * math.log(seen.height / 32)),
    ]
    return [boxes, scores]


def yunet(seen: Object) -> list[Floats]:
    found = []
    place = row_of(seen, (16,), 16)
    box = [
        *(seen.x / 16 - seen.x // 16, seen.y / 16 - seen.y // 16),
        *(math.log(seen.width / 16), math.log(seen.height / 16)),
    ]
    for columns, values in ((1, [seen.score]), (1, [seen.score]), (4, box), (10, [0.0] * 10)):
        for stride in STRIDES:
            tensor = np.zeros((math.prod(cells(stride)), columns), np.float32)
            if stride == 16:
                tensor[place] = values
            found.append(tensor)
    return found


def blazeface(seen: Object) -> list[Floats]:
    """On a square of WIDTH pixels: sixteen cells a side with two anchors each come first."""
    column, row = int(seen.x // 8), int(seen.y // 8)
    place = 2 * (row * 16 + column)
    box = [seen.x - 8 * (column + 0.5), seen.y - 8 * (row + 0.5), seen.width, seen.height]
    return [
        table(896, 16, place, [*box, *[0.0] * 12]),
        table(896, 1, place, [logit(seen.score)], fill=LOW),
    ]
