"""Head tensors to boxes, against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from harness.accuracy.boxes import Candidates, Detections, join
from harness.accuracy.decoders.darknet import decode
from harness.accuracy.heads import DetectionHead
from harness.errors import ConfigurationError

NETWORK = (3, 64, 128)  # channels, height, width


def head(**changes: Any) -> DetectionHead:
    keys: dict[str, Any] = {
        "layer": 1,
        "kind": "yolo",
        "anchors": np.array([[16.0, 8.0]], np.float32),
        "classes": 2,
        "scale_x_y": 1.0,
        "new_coords": False,
        "softmax": False,
        "nms_kind": "default",
        "beta_nms": 0.6,
    }
    return DetectionHead(**(keys | changes))


def tensor(rows: int = 2, columns: int = 4, anchors: int = 1, fill: float = -20.0) -> np.ndarray[Any, Any]:
    return np.full((anchors * 7, rows, columns), fill, np.float32)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_a_yolo_box_follows_its_cell_and_anchor() -> None:
    raw = tensor()
    raw[:, 1, 2] = [0.0, 1.0, 0.5, -0.5, 2.0, 3.0, -20.0]
    found = decode(head(), raw, NETWORK, 0.1)
    x, y, width, height = found.boxes[0]
    assert len(found.boxes) == 1
    assert x == pytest.approx((2 + 0.5) / 4)
    assert y == pytest.approx((1 + sigmoid(1.0)) / 2)
    assert width == pytest.approx(math.exp(0.5) * 16 / 128)
    assert height == pytest.approx(math.exp(-0.5) * 8 / 64)
    assert found.probabilities[0].tolist() == [pytest.approx(sigmoid(2.0) * sigmoid(3.0)), 0.0]


def test_scale_x_y_stretches_the_centre_about_the_cells_middle() -> None:
    raw = tensor()
    raw[:, 0, 0] = [2.0, 0.0, 0.0, 0.0, 5.0, 5.0, 5.0]
    found = decode(head(scale_x_y=1.2), raw, NETWORK, 0.1)
    assert found.boxes[0][0] == pytest.approx((sigmoid(2.0) * 1.2 - 0.1) / 4)
    assert found.boxes[0][1] == pytest.approx(0.5 / 2)


def test_new_coords_applies_no_logistic_and_squares_the_size() -> None:
    raw = tensor(fill=0.0)
    raw[:, 0, 3] = [0.5, 0.25, 0.5, 1.0, 0.9, 0.8, 0.1]
    found = decode(head(new_coords=True, scale_x_y=2.0), raw, NETWORK, 0.1)
    x, y, width, height = found.boxes[0]
    assert (x, y) == (pytest.approx((3 + 0.5) / 4), pytest.approx((0.25 * 2 - 0.5) / 2))
    assert (width, height) == (pytest.approx(0.25 * 4 * 16 / 128), pytest.approx(4 * 8 / 64))
    assert found.probabilities[0].tolist() == [pytest.approx(0.72), 0.0]  # 0.09 is not above 0.1


def test_a_region_box_has_anchors_in_cells_and_softmaxed_classes() -> None:
    raw = tensor()
    raw[:, 1, 0] = [0.0, 0.0, 0.0, 1.0, 4.0, 1.0, 2.0]
    found = decode(
        head(kind="region", softmax=True, anchors=np.array([[2.0, 0.5]], np.float32)), raw, NETWORK, 0.1
    )
    assert found.boxes[0].tolist() == [
        pytest.approx(0.5 / 4),
        pytest.approx(1.5 / 2),
        pytest.approx(2.0 / 4),
        pytest.approx(math.e * 0.5 / 2),
    ]
    first = 1 / (1 + math.e)
    assert found.probabilities[0].tolist() == [
        pytest.approx(sigmoid(4) * first),
        pytest.approx(sigmoid(4) * (1 - first)),
    ]


def test_candidates_come_by_cell_then_anchor() -> None:
    raw = tensor(anchors=2)
    for anchor, row, column in ((1, 0, 1), (0, 1, 0), (0, 0, 1)):
        raw[anchor * 7 + 4, row, column] = 3.0
    anchors = np.array([[16, 8], [32, 8]], np.float32)
    found = decode(head(anchors=anchors), raw, NETWORK, 0.5)
    cells = [(int(x * 4), int(y * 2), bool(width > 1e-9)) for x, y, width, _ in found.boxes]
    assert [cell[:2] for cell in cells] == [(1, 0), (1, 0), (0, 1)]
    assert found.boxes[1][2] == pytest.approx(2 * found.boxes[0][2])


def test_nan_gives_no_box() -> None:
    raw = tensor()
    raw[4, 0, 0] = np.nan
    assert len(decode(head(), raw, NETWORK, 0.1).boxes) == 0


def test_overflow_gives_no_warning() -> None:
    raw = tensor(fill=-1e30)
    raw[:, 0, 0] = 1e30
    assert len(decode(head(), raw, NETWORK, 0.1).boxes) == 1


def test_a_tensor_with_wrong_depth_is_an_error_with_the_layer() -> None:
    with pytest.raises(ConfigurationError, match=r"layer 1 .* want 7 channels, layer 0 gives 9"):
        decode(head(), np.zeros((9, 2, 2), np.float32), NETWORK, 0.1)


def test_join_keeps_the_heads_order() -> None:
    parts = [
        Candidates(
            boxes=np.full((count, 4), count, np.float32), probabilities=np.zeros((count, 2), np.float32)
        )
        for count in (2, 0, 1)
    ]
    assert join(parts).boxes[:, 0].tolist() == [2, 2, 1]


def test_detections_above_a_threshold_and_their_corners() -> None:
    found = Detections(
        boxes=np.array([[0.5, 0.5, 0.2, 0.4], [0, 0, 1, 1]], np.float32),
        classes=np.array([3, 4], np.intp),
        confidences=np.array([0.5, 0.25], np.float32),
    )
    above = found.above(0.25)
    assert above.classes.tolist() == [3]
    assert np.allclose(above.corners(), [[0.4, 0.3, 0.2, 0.4]])
