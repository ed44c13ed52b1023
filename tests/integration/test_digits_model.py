"""The detector that ships: its accuracy, and that its calibration file is its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.accuracy.calibrate import calibrate
from harness.accuracy.evaluate import evaluate
from harness.config.policy import BUILT_IN, apply
from harness.config.sweep_file import read_sweep
from harness.resources import resource
from harness.runtimes.engine import HostEngine

pytestmark = pytest.mark.engine

FOLDER = resource("cfg", "digits")
CFG, WEIGHTS = FOLDER / "digits.cfg", FOLDER / "digits.weights"
CALIBRATION = FOLDER / "digits.calibration.json"


def score(engine: HostEngine, cfg: Path, calibration: Path | None = None) -> float:
    result = evaluate(
        engine, cfg=cfg, weights=WEIGHTS, dataset=FOLDER / "data", calibration=calibration, resize="stretch"
    )
    assert result["images"] == 200
    return float(result["map50"])


def test_accuracy_on_other_writers_digits(host_engine: HostEngine, tmp_path: Path) -> None:
    exact = score(host_engine, CFG)
    assert exact >= 0.90
    int8 = tmp_path / "int8.cfg"
    int8.write_text(apply(BUILT_IN["int8"], CFG.read_text()))
    assert score(host_engine, int8, CALIBRATION) == pytest.approx(exact, abs=0.02)


def test_the_calibration_is_of_these_weights(host_engine: HostEngine, tmp_path: Path) -> None:
    """Recorded again on the pictures that ship; a JPEG decoder may round a pixel otherwise."""
    calibrate(host_engine, cfg=CFG, weights=WEIGHTS, dataset=FOLDER / "calibration", resize="stretch").write(
        tmp_path / "again.json"
    )
    again, shipped = (json.loads(path.read_text()) for path in (tmp_path / "again.json", CALIBRATION))
    assert again["images"] == shipped["images"] == 32
    for ours, theirs in zip(again["tensors"], shipped["tensors"], strict=True):
        width = theirs["max"] - theirs["min"]
        assert ours["layer"] == theirs["layer"]
        assert ours["min"] == pytest.approx(theirs["min"], abs=0.05 * width)
        assert ours["max"] == pytest.approx(theirs["max"], abs=0.05 * width)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("quickstart", {"host", "pi4"}),
        ("boards", {"pi3", "pi4", "pi5", "jetson-nano"}),
        ("digits-layers", {"host"}),
    ],
)
def test_the_sweeps_that_ship_are_valid(name: str, targets: set[str]) -> None:
    sweep = read_sweep(resource("cfg", "sweeps", f"{name}.yaml"))
    assert targets <= {target.name for target in sweep.targets}
