"""Training's parts that need no TensorFlow: activations by lines, places of resized maps, what a head shall
say, what outputs say, and how fast it learns."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from harness.accuracy.heads import DetectionHead
from harness.accuracy.model import Model, described_model
from harness.accuracy.output_agreement import OutputNoise
from harness.errors import ConfigurationError
from harness.exporting.network import Network, read_network
from harness.training.activation_lines import EITHER_SIDE, LINED, PER_UNIT, lines_of
from harness.training.detectors import CellOutputs, Columns, cell_outputs
from harness.training.finetune import suitable_rate
from harness.training.resizing import taps_of
from harness.training.schedule import Schedule
from harness.training.supported import check_supported
from harness.training.targets import Grid, Objects, mirrored, targets

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


def test_objects_are_mirrored_with_their_picture() -> None:
    objects = Objects(boxes=np.array([[0.75, 0.25, 0.5, 0.5]], np.float32), classes=np.array([2], np.float32))
    assert mirrored(objects).boxes.tolist() == [[0.25, 0.25, 0.5, 0.5]]
    assert mirrored(mirrored(objects)).boxes.tolist() == objects.boxes.tolist()


def without_weights(folder: Path, layer: str) -> Network:
    """A network of one layer that has no weights."""
    cfg, weights = folder / "net.cfg", folder / "net.weights"
    cfg.write_text(f"[net]\nchannels=4\nheight=4\nwidth=4\n{layer}")
    weights.write_bytes(struct.pack("<iiiq", 0, 2, 5, 0))
    return read_network(cfg, weights)


@pytest.mark.parametrize(
    ("mode", "lower", "weights"),
    [
        ("mode=linear\ncoordinates=half_pixel", [0, 0, 0, 1, 1, 2, 2, 3], [0, 1, 3, 1, 3, 1, 3, 0]),
        ("mode=linear\ncoordinates=asymmetric", [0, 0, 1, 1, 2, 2, 3, 3], [0, 2, 0, 2, 0, 2, 0, 0]),
        ("mode=linear\ncoordinates=align_corners", [0, 0, 0, 1, 1, 2, 2, 3], None),
        ("rounding=floor\ncoordinates=asymmetric", [0, 0, 1, 1, 2, 2, 3, 3], [0] * 8),
        ("rounding=ceil\ncoordinates=asymmetric", [0, 1, 1, 2, 2, 3, 3, 3], [0] * 8),
        ("rounding=round_prefer_ceil\ncoordinates=asymmetric", [0, 1, 1, 2, 2, 3, 3, 3], [0] * 8),
        ("rounding=round_prefer_floor\ncoordinates=asymmetric", [0, 0, 1, 1, 2, 2, 3, 3], [0] * 8),
    ],
)
def test_resized_maps_read_the_places_of_the_engine(
    tmp_path: Path, mode: str, lower: Sequence[int], weights: Sequence[int] | None
) -> None:
    """`weights` are in quarters."""
    network = without_weights(tmp_path, f"[resize]\nheight=8\nwidth=4\n{mode}\n")
    rows, columns = taps_of(network.layers[0])
    assert [tap.lower for tap in rows] == list(lower)
    assert [tap.lower for tap in columns] == [0, 1, 2, 3]
    if weights is not None:
        assert [4 * float(tap.weight) for tap in rows] == weights
    assert all(tap.lower <= tap.upper <= 3 for tap in rows)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ("[activation]\nactivation=leaky\nalpha=0.2\n", "it has alpha= or beta="),
        ("[pool]\ntype=max\nsize=2\ndilation=2\n", "it has dilation="),
        ("[softmax]\n", "it has no axis="),
        ("[exp]\n", "training knows the kinds"),
    ],
)
def test_layers_that_training_would_compute_otherwise_are_refused(
    tmp_path: Path, layer: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot be trained: {reason}"):
        check_supported(without_weights(tmp_path, layer))


def detector(folder: Path, decoder: str, *shapes: tuple[int, int, int]) -> Model:
    """A model with outputs of these channels, rows and columns, for pictures of 64x64."""
    cfg, weights = folder / "net.cfg", folder / "net.weights"
    names = [f"out{place}" for place in range(len(shapes))]
    layers = "".join(f"[activation]\nname={name}\nfrom=picture\n" for name in names)
    net = f"width=64\nheight=64\nname=picture\ndecoder={decoder}\noutputs={','.join(names)}"
    cfg.write_text(f"[net]\n{net}\n{layers}")
    return described_model(cfg, weights, [{"out": list(shape)} for shape in shapes])


def test_the_columns_of_cells_are_those_of_the_decoder(tmp_path: Path) -> None:
    (yolox,) = cell_outputs(detector(tmp_path, "yolox", (84, 1, 13)))
    assert (yolox.boxes.begin, yolox.boxes.end) == (0, 4)
    assert yolox.objectness == Columns(layer=0, rows=84, begin=4, end=5)
    assert yolox.classes == Columns(layer=0, rows=84, begin=5, end=13)
    (fastestdet,) = cell_outputs(detector(tmp_path, "fastestdet", (13, 4, 4)))
    assert fastestdet.objectness == Columns(layer=0, rows=16, begin=0, end=1)
    assert (fastestdet.boxes.begin, fastestdet.boxes.end, fastestdet.shares) == (1, 5, True)
    scores, sides = [(1, count, 8) for count in (64, 16, 4)], [(1, count, 32) for count in (64, 16, 4)]
    nanodet = cell_outputs(detector(tmp_path, "nanodet", *scores, *sides))
    assert [(each.classes.layer, each.boxes.layer, each.boxes.rows) for each in nanodet] == [
        (0, 3, 64),
        (1, 4, 16),
        (2, 5, 4),
    ]
    assert all(each.distributions and each.objectness is None for each in nanodet)


def test_the_columns_of_cells_pass_a_file(tmp_path: Path) -> None:
    (found,) = cell_outputs(detector(tmp_path, "fastestdet", (13, 4, 4)))
    assert CellOutputs.from_json(json.loads(json.dumps(asdict(found)))) == found


def test_outputs_without_cells_have_no_columns(tmp_path: Path) -> None:
    assert not cell_outputs(detector(tmp_path, "none", (10, 1, 1)))


@pytest.mark.parametrize(
    ("ratio", "rate"), [(10, 0.004), (15, 0.0004), (-20, 0.01), (30, 0.0003), (None, 0.0003)]
)
def test_the_rate_follows_the_heads_noise(ratio: float | None, rate: float) -> None:
    noise = 0.0 if ratio is None else 10 ** (-ratio / 10)
    heads = [OutputNoise(name="1", shape=(1,), signal=1.0, noise=noise)]
    assert suitable_rate(heads) == pytest.approx(rate, rel=0.01)


def test_an_epoch_that_makes_the_loss_much_worse_is_undone_and_halves_the_rate() -> None:
    schedule = Schedule(rate=0.01)
    assert schedule.is_best(1.0)
    assert not schedule.is_best(1.2)
    assert not schedule.undoes(1.2)
    assert schedule.rate == 0.01
    for loss in (1.3, math.nan, math.inf):
        assert not schedule.is_best(loss)
        assert schedule.undoes(loss)
    assert schedule.rate == pytest.approx(0.00125)
    assert schedule.is_best(0.9)


def test_the_rate_rises_for_ten_steps_and_falls_to_nothing() -> None:
    schedule = Schedule(rate=0.01)
    rates = [schedule.rate_at(step / 1000, step) for step in (0, 9, 500, 1000)]
    assert rates == pytest.approx([0.001, 0.01, 0.005, 0.0], rel=0.01, abs=1e-9)
