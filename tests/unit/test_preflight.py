"""A sweep's files are checked before an engine is built, and cells that cannot be measured are named."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from networks import CLASSIFIER, DETECTOR, write_sweep
from PIL import Image

from harness import cli
from harness.config.darknet_cfg import parse_cfg
from harness.measure.result import Outcome
from harness.store.store import FILE_NAME
from harness.sweep.run import _Execution

MODEL = "{name: net, cfg: net.cfg, weights: net.weights, dataset: data, calibration: ranges.json}"

WHOLE = DETECTOR.replace("classes=2\n", "classes=2\nnum=3\n")


@pytest.fixture(autouse=True)
def nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build_engine(*_: object, **__: object) -> None:
        pytest.fail("an engine was built")

    monkeypatch.setattr("harness.build.engine.build_engine", build_engine)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def sweep(folder: Path, targets: str = "pi4", cfg: str = WHOLE) -> list[str]:
    """The words of `harness run` for a whole sweep."""
    path = write_sweep(folder, f"models: [{MODEL}]\npolicies: [fp32, int8]\ntargets: [{targets}]\n", cfg=cfg)
    layers = parse_cfg(cfg, "net.cfg").layers
    parameters = sum(layer.parameters or 0 for layer in layers)
    header = struct.pack("<iii", 0, 2, 5) + bytes(8)
    (folder / "net.weights").write_bytes(header + bytes(4 * parameters))
    network = {"layers": len(layers)}
    (folder / "ranges.json").write_text(json.dumps({"format": "mpe-calibration", "network": network}))
    for name in ("images", "labels"):
        (folder / "data" / name).mkdir()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "data" / "images" / "a.png")
    (folder / "data" / "labels" / "a.txt").write_text("1 0.5 0.5 0.5 0.5\n")
    return ["run", "--matrix", str(path), "--results", str(folder / "results")]


def test_a_sweep_of_emulated_boards_without_docker_measures_nothing_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = sweep(tmp_path, "pi4, jetson-nano")
    for _ in range(2):
        assert cli.main([*words, "--json"]) == 9
        out, said = capsys.readouterr()
        data = json.loads(out)
        assert data["counts"] == {"done": 0, "failed": 0, "skipped": 4, "pending": 0}
        assert {cell["status"] for cell in data["cells"]} == {"skipped"}
        assert all("the Docker Engine does not answer" in cell["error"] for cell in data["cells"])
        assert "4 cells: 4 skipped\n" in said
        assert "error: no cell could be measured:\n  emulation is not available: the Docker Engine" in said
        assert said.count("warning: skipping emulated boards") == 1
        assert "measured already" not in said
    database = sqlite3.connect(tmp_path / "results" / FILE_NAME)
    try:
        assert database.execute("SELECT DISTINCT status FROM cells").fetchall() == [("skipped",)]
    finally:
        database.close()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"net.weights": b"\x08\x07\x12\x0cPaddle"},
            "net.weights: is an ONNX model; harness reads Darknet w",
        ),
        ({"net.weights": b"\0" * 100}, "net.weights: has 100 bytes"),
        ({"ranges.json": b"{}"}, "ranges.json: not a calibration file"),
        (
            {"data/labels/a.txt": b"2 0.5 0.5 0.5 0.5"},
            "a.txt:1: unknown class 2; the network has 0 to 1",
        ),
        ({"data/labels/a.txt": b"1 0.5"}, "a.txt:1: a label has 5 numbers"),
    ],
)
@pytest.mark.parametrize("targets", ["host", "pi4"])
def test_files_are_looked_at_first(
    tmp_path: Path, files: Mapping[str, bytes], said: str, targets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = sweep(tmp_path, targets)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert cli.main(words) == 2
    shown = capsys.readouterr().err
    assert f"error: {tmp_path}/sweep.yaml:1: " in shown
    assert said in shown


def test_keys_of_a_cfg_are_looked_at_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = sweep(tmp_path)
    (tmp_path / "net.cfg").write_text(WHOLE.replace("activation=", "activaton=", 1))
    assert cli.main(words) == 2
    line = WHOLE[: WHOLE.index("activation=")].count("\n") + 1
    wrong = "[convolutional] there is no key 'activaton'; did you mean 'activation'?"
    assert f"error: {tmp_path}/net.cfg:{line}: {wrong}\n" in capsys.readouterr().err


def test_a_classifier_has_no_use_for_boxes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(sweep(tmp_path, cfg=CLASSIFIER)) == 2
    assert "data: has boxes; " in capsys.readouterr().err


def test_earlier_results_do_not_pass_for_fresh_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Docker answered when the cells were measured, and does not any more."""
    words = sweep(tmp_path)

    def nothing_is_possible(self: _Execution) -> None:
        self.keys = [f"cell {number}" for number in range(len(self.cells))]
        self._plan(self.keys, [None] * len(self.keys))
        for key in self.keys:
            earlier = self.store.cell(key)
            if earlier is None:
                self.store.complete_cell(self.run, key, Outcome(status="done"))

    monkeypatch.setattr(_Execution, "run_all", nothing_is_possible)
    assert cli.main(words) == 0
    assert cli.main(words) == 0
    capsys.readouterr()
    assert cli.main([*words, "--fresh"]) == 9
    said = capsys.readouterr().err
    assert "2 of 2 cells could not be measured again; the report has their earlier results" in said
