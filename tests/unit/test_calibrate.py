"""Calibration: what is recorded, from which pictures, and how it is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from accuracy_stand_in import DETECTOR_CFG, Floats, StandIn
from PIL import Image

from harness.accuracy.calibrate import calibrate
from harness.accuracy.overlap import picture_digest
from harness.errors import ConfigurationError


def doubled(images: Floats, precision: str) -> Floats:
    """Seven channels: twice the red channel's value, less the channel's number."""
    assert precision == "fp32", "ranges are recorded in fp32, whatever the cfg asks"
    return 2 * images[:, :1] - np.arange(7, dtype=np.float32)[None, :, None, None]


@pytest.fixture
def material(tmp_path: Path) -> Path:
    (tmp_path / "net.cfg").write_text(DETECTOR_CFG.format(keys="int8=1\n"))
    (tmp_path / "net.weights").touch()
    (tmp_path / "data").mkdir()
    for number in range(8):
        picture = np.full((4, 4, 3), number * 20, np.uint8)
        Image.fromarray(picture).save(tmp_path / "data" / f"{number}.png")
    return tmp_path


def run(material: Path, **options: object) -> object:
    return calibrate(
        StandIn(doubled, (7, 4, 4)),
        cfg=material / "net.cfg",
        weights=material / "net.weights",
        dataset=material / "data",
        **options,  # type: ignore[arg-type]
    )


def written(material: Path, **options: object) -> dict[str, object]:
    out = material / "out.json"
    run(material, **options).write(out)  # type: ignore[attr-defined]
    document: dict[str, object] = json.loads(out.read_text())
    return document


def test_the_file_holds_every_tensor_with_its_channels(material: Path) -> None:
    document = written(material)
    tensors = document.pop("tensors")
    assert document == {
        "format": "mpe-calibration",
        "version": 1,
        "method": "minmax",
        "images": 8,
        "network": {"layers": 2, "input": [3, 4, 4]},
        "pictures": [picture_digest(path) for path in sorted((material / "data").iterdir())],
    }
    assert isinstance(tensors, list)
    assert [tensor["layer"] for tensor in tensors] == [-1, 0, 1]
    brightest = float(np.float32(140 / 255))
    assert tensors[0]["min"] == 0.0
    assert tensors[0]["max"] == pytest.approx(brightest, rel=1e-8)
    assert len(tensors[0]["channel_max"]) == 3
    assert tensors[1]["min"] == -6.0
    assert tensors[1]["max"] == pytest.approx(2 * brightest)
    assert tensors[1]["channel_min"] == [0, -1, -2, -3, -4, -5, -6]
    assert tensors[1]["channel_max"] == pytest.approx([2 * brightest - c for c in range(7)])


def test_numbers_keep_every_bit(material: Path) -> None:
    tensors = written(material)["tensors"]
    assert isinstance(tensors, list)
    assert np.float32(tensors[0]["max"]) == np.float32(140 / 255)


def test_limit_and_skip_choose_the_pictures(material: Path) -> None:
    document = written(material, limit=2, skip=3)
    assert document["images"] == 2
    tensors = document["tensors"]
    assert isinstance(tensors, list)
    assert (tensors[0]["min"], tensors[0]["max"]) == pytest.approx((60 / 255, 80 / 255), rel=1e-7)


@pytest.mark.parametrize("method", ["percentile", "kl", "mse"])
def test_other_methods_stay_within_minmax_and_keep_the_input_range(material: Path, method: str) -> None:
    plain, chosen = written(material)["tensors"], written(material, method=method)["tensors"]
    assert isinstance(plain, list)
    assert isinstance(chosen, list)
    assert chosen[0] == plain[0]
    assert plain[1]["min"] <= chosen[1]["min"] <= chosen[1]["max"] <= plain[1]["max"]
    assert chosen[1]["channel_min"] == plain[1]["channel_min"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"method": "median"}, "choose from minmax, percentile, kl, mse"),
        ({"limit": 0}, "limit of 0"),
        ({"skip": 8}, "cannot skip 8 of 8 pictures"),
        ({"skip": -1}, "cannot skip -1"),
        ({"resize": "zoom"}, "unknown resize zoom"),
    ],
)
def test_bad_options_are_errors(material: Path, options: dict[str, object], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        run(material, **options)


def test_infinite_values_are_an_error_with_the_layer(material: Path) -> None:
    engine = StandIn(lambda images, _: np.full((len(images), 7, 4, 4), np.nan, np.float32), (7, 4, 4))
    with pytest.raises(ConfigurationError, match="layer 0 computes infinite values or NaN"):
        calibrate(
            engine, cfg=material / "net.cfg", weights=material / "net.weights", dataset=material / "data"
        )


def test_a_damaged_picture_does_not_change_an_existing_file(material: Path) -> None:
    (material / "data" / "9.png").write_bytes(b"?")
    (material / "out.json").write_text("older")
    with pytest.raises(ConfigurationError, match=r"9\.png"):
        written(material)
    assert (material / "out.json").read_text() == "older"
