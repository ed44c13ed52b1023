"""Training's parts that need no TensorFlow: activations by lines, and what a head shall say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from harness.accuracy.heads import DetectionHead
from harness.training.activation_lines import EITHER_SIDE, LINED, PER_UNIT, lines_of
from harness.training.targets import Grid, Objects, targets

EXACT: Mapping[str, Callable[[float], float]] = {
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "swish": lambda x: x / (1 + math.exp(-x)),
    "hard_mish": lambda x: max(x, 0.0) + (max(-1.0, min(x + 1, 1.0)) ** 2 - 1) / 2,
    "hard_swish": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
    "hard_sigmoid": lambda x: min(max(x / 6 + 0.5, 0.0), 1.0),
    "elu": lambda x: x if x > 0 else math.expm1(x),
}


@pytest.mark.parametrize("activation", sorted(LINED))
def test_lines_are_as_near_to_the_activation_as_the_engine_says(activation: str) -> None:
    intercepts, slopes = lines_of(activation)
    x = np.linspace(-15.9, 15.9, 4001)
    lines = np.floor(x * PER_UNIT).astype(int) + EITHER_SIDE
    found = intercepts[lines] + slopes[lines] * x
    bound = 4.1e-4 if activation.startswith("hard") else 7.5e-5
    assert np.abs(found - [EXACT[activation](value) for value in x]).max() < bound


def grid(anchors: list[list[float]], cells: int) -> Grid:
    head = DetectionHead(
        layer=1,
        kind="yolo",
        anchors=np.array(anchors, np.float32),
        classes=3,
        scale_x_y=1.0,
        new_coords=False,
        softmax=False,
        nms_kind="default",
        beta_nms=0.6,
    )
    return Grid(head=head, rows=cells, columns=cells, width=64, height=64)


def test_an_object_belongs_to_the_anchors_of_its_size_and_the_cell_of_its_centre() -> None:
    coarse, fine = grid([[32, 32], [20, 40]], 2), grid([[8, 8]], 4)
    objects = Objects(boxes=np.array([[0.75, 0.25, 0.5, 0.5]], np.float32), classes=np.array([2], np.float32))
    nothing = Objects(boxes=np.zeros((0, 4), np.float32), classes=np.zeros(0, np.float32))
    wanted, others = targets([objects, nothing], [coarse, fine])
    assert wanted[0, 0, 1, 0].tolist() == [48, 16, 32, 32, 1, 1, 2]
    assert wanted[0, 0, 1, 1].tolist() == [48, 16, 32, 32, 1, 1, 2]  # overlaps by 640 / 1184
    assert wanted[..., 4].sum() == 2
    assert not others[..., 4].any()
    assert (others[..., 5] == 1).all()  # 64 / 1024: too small to be excused


def test_an_anchor_that_nearly_fits_may_say_anything() -> None:
    only = grid([[32, 32], [24, 64]], 1)
    objects = Objects(boxes=np.array([[0.5, 0.5, 0.5, 0.5]], np.float32), classes=np.zeros(1, np.float32))
    (wanted,) = targets([objects], [only])
    assert wanted[0, 0, 0, :, 4].tolist() == [1, 0]
    assert wanted[0, 0, 0, :, 5].tolist() == [1, 0]  # 768 / 1792 lies between the two shares
