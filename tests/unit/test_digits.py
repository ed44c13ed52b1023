"""The digit detector's scenes, targets and exporter: what needs neither TensorFlow nor scikit-learn."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness.resources import resource

FOLDER = resource("cfg", "digits")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of cfg/digits by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def made_up_digits(scenes: Any) -> list[Any]:
    """Ten "digits": squares of random ink with full ink in the middle."""
    rng = np.random.default_rng(5)
    digits = []
    for label in range(10):
        ink = rng.integers(0, 256, (8, 8)).astype(np.uint8)
        ink[2:6, 2:6] = 255
        digits.append(scenes.Digit(ink=ink, label=label))
    return digits


def test_a_scene_depends_on_its_seed_and_its_number_only(module: Any) -> None:
    scenes = module("scenes")
    digits = made_up_digits(scenes)
    together = list(scenes.scenes(digits, 7, 0, 6))
    alone = next(scenes.scenes(digits, 7, 5, 1))
    assert np.array_equal(together[5].pixels, alone.pixels)
    assert together[5].boxes == alone.boxes
    other = next(scenes.scenes(digits, 8, 5, 1))
    assert not np.array_equal(other.pixels, alone.pixels)


def test_boxes_lie_in_the_scene_and_apart(module: Any) -> None:
    scenes = module("scenes")
    found = 0
    for scene in scenes.scenes(made_up_digits(scenes), 1, 0, 60):
        assert scene.pixels.shape == (scenes.SIZE, scenes.SIZE, 3)
        assert scene.pixels.dtype == np.uint8
        covered = np.zeros((scenes.SIZE, scenes.SIZE), int)
        for box in scene.boxes:
            assert box.left >= 0
            assert box.top >= 0
            assert box.left + box.width <= scenes.SIZE
            assert box.top + box.height <= scenes.SIZE
            covered[box.top : box.top + box.height, box.left : box.left + box.width] += 1
            found += 1
        assert covered.max(initial=0) <= 1
    assert found > 60


def test_the_box_is_the_ink(module: Any) -> None:
    """Without background and camera, all that differs from the canvas is inside the box, up to its edges."""
    scenes = module("scenes")
    rng = np.random.default_rng(3)
    for digit in made_up_digits(scenes):
        canvas = np.full((scenes.SIZE, scenes.SIZE, 3), 128, np.float32)
        box = scenes._place(canvas, scenes._stamp(digit, rng), digit.label, [], rng)
        rows, columns = np.nonzero(np.abs(canvas - 128).max(2) > 10)
        assert (columns.min(), rows.min()) == (box.left, box.top)
        assert (columns.max() + 1, rows.max() + 1) == (box.left + box.width, box.top + box.height)


def test_the_cell_with_the_centre_predicts_a_digit(module: Any) -> None:
    scenes, yolo = module("scenes"), module("yolo")
    anchors = np.array([[10.0, 10.0], [30.0, 30.0]], np.float32)
    head = yolo.Head(cells=8, anchors=anchors)
    box = scenes.Box(label=7, left=40, top=66, width=28, height=30)  # centre 54, 81: cell 3, 5
    (target,) = yolo.targets([box], [head])
    assert np.argwhere(target[..., 4] == 1).tolist() == [[5, 3, 1]]
    assert target[5, 3, 1].tolist() == [54, 81, 28, 30, 1, 1, 7]
    assert target[5, 3, 0, 5] == 1, "an anchor far too small must stay silent"


def test_a_nearly_matching_anchor_is_ignored_in_training(module: Any) -> None:
    scenes, yolo = module("scenes"), module("yolo")
    head = yolo.Head(cells=8, anchors=np.array([[18.0, 18.0], [30.0, 30.0]], np.float32))
    box = scenes.Box(label=1, left=40, top=66, width=28, height=28)
    (target,) = yolo.targets([box], [head])
    assert target[5, 3, 0, 4:6].tolist() == [0, 0]


def test_every_digit_is_assigned_to_an_anchor(module: Any) -> None:
    scenes, yolo = module("scenes"), module("yolo")
    head = yolo.Head(cells=8, anchors=np.array([[100.0, 5.0]], np.float32))
    box = scenes.Box(label=1, left=40, top=66, width=20, height=30)
    (target,) = yolo.targets([box], [head])
    assert target[..., 4].sum() == 1


def test_anchors_are_the_clusters_of_sizes(module: Any) -> None:
    scenes, yolo = module("scenes"), module("yolo")
    rng = np.random.default_rng(0)
    boxes = [
        scenes.Box(
            label=0, left=0, top=0, width=width + rng.normal(0, 0.3), height=height + rng.normal(0, 0.3)
        )
        for width, height in [(10, 20), (40, 40)]
        for _ in range(50)
    ]
    assert yolo.fit_anchors(boxes, 2, rng).tolist() == [[10, 20], [40, 40]]


class FakeLayer:
    """A Keras layer as far as the exporter looks at it."""

    def __init__(self, name: str, weights: list[np.ndarray[Any, Any]]) -> None:
        self.name = name
        self.weights = weights

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        return self.weights


class FakeModel:
    def __init__(self, layers: list[FakeLayer]) -> None:
        self.layers = layers


def test_weights_are_written_in_darknets_order(module: Any, tmp_path: Path) -> None:
    kernel = np.arange(2 * 2 * 3 * 4, dtype=np.float32).reshape(2, 2, 3, 4)  # y, x, in, out
    scale, offset, mean, variance = (np.full(4, value, np.float32) for value in (1, 2, 3, 4))
    last, bias = np.ones((1, 1, 4, 2), np.float32) * 9, np.array([5, 6], np.float32)
    model = FakeModel(
        [
            FakeLayer("convolution_10", [last, bias]),  # sorted as a number, not as text
            FakeLayer("input", []),
            FakeLayer("convolution_2", [kernel]),
            FakeLayer("normalisation_2", [scale, offset, mean, variance]),
        ]
    )
    module("darknet").write_weights(tmp_path / "w", model, images_seen=1 << 33)
    content = (tmp_path / "w").read_bytes()
    assert np.frombuffer(content, "<i4", 3).tolist() == [0, 2, 0]
    assert np.frombuffer(content, "<u8", 1, offset=12).tolist() == [1 << 33]
    values = np.frombuffer(content, "<f4", offset=20)
    assert values[:16].tolist() == [2] * 4 + [1] * 4 + [3] * 4 + [4] * 4
    written = values[16:64].reshape(4, 3, 2, 2)  # out, in, y, x
    assert written[3, 1, 0, 1] == kernel[0, 1, 1, 3]
    assert values[64:].tolist() == [5, 6] + [9] * 8


def test_the_cfg_that_ships_fits_the_weights_that_ship(module: Any) -> None:
    """Counts parameters as Darknet does; the file holds exactly these and is at most 1.5 MB."""
    sections = module("darknet").read_cfg((FOLDER / "digits.cfg").read_text())
    channels: list[int] = []
    parameters = 0
    for index, section in enumerate(sections[1:]):
        before = channels[-1] if channels else 3
        if section.kind == "convolutional":
            filters, size = int(section.keys["filters"]), int(section.keys["size"])
            parameters += filters * (before * size**2 + (4 if "batch_normalize" in section.keys else 1))
            before = filters
        elif section.kind == "route":
            before = sum(channels[i if i >= 0 else index + i] for i in section.numbers("layers"))
        channels.append(before)
    size = (FOLDER / "digits.weights").stat().st_size
    assert size == 20 + 4 * parameters
    assert size <= 1_500_000


def test_the_data_that_ships_is_complete() -> None:
    images = sorted((FOLDER / "data" / "images").iterdir())
    labels = sorted((FOLDER / "data" / "labels").iterdir())
    assert len(images) == 200
    assert [image.stem for image in images] == [label.stem for label in labels]
    assert len(list((FOLDER / "calibration" / "images").iterdir())) == 32
    assert sum(path.stat().st_size for path in [*images, *labels]) < 2_500_000
    with Image.open(images[0]) as image:
        assert image.size == (128, 128)
