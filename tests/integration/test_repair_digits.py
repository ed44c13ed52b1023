"""`harness repair` of the detector that ships, on its calibration pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documented import undocumented

from harness import cli
from harness.accuracy.evaluate import evaluate
from harness.config.policy import BUILT_IN, apply
from harness.resources import resource
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = pytest.mark.engine

FOLDER = resource("cfg", "digits")
CFG, WEIGHTS = FOLDER / "digits.cfg", FOLDER / "digits.weights"
MODEL = ["--cfg", str(CFG), "--weights", str(WEIGHTS), "--dataset", str(FOLDER / "calibration")]


def repaired(out: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert cli.main(["repair", *MODEL, "--resize", "stretch", "--out", str(out), "--json", *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert not undocumented("repair", document)
    assert {path.name for path in out.iterdir()} == {Path(file).name for file in document["files"]}
    return document


def scores(engine: HostEngine, cfg: Path, weights: Path, calibration: Path) -> dict[str, Any]:
    return evaluate(
        engine,
        cfg=cfg,
        weights=weights,
        dataset=FOLDER / "data",
        resize="stretch",
        calibration=calibration,
        limit=60,
        agreement=True,
        fp32_weights=WEIGHTS,
    )


def test_a_repaired_network_agrees_with_the_original_in_fp32(
    host_engine: HostEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = repaired(tmp_path / "out", capsys)
    assert document["images"] == 32
    assert [row["name"] for row in document["repairs"]] == [
        *("equalise", "ranges", "rounding", "clipping", "bias")
    ]
    gains = [layer["sqnr_db"] - layer["sqnr_before_db"] for layer in document["layers"]]
    assert np.mean(gains) > 1
    plain = tmp_path / "plain.cfg"
    plain.write_text(apply(BUILT_IN["int8"], CFG.read_text()))
    before = scores(host_engine, plain, WEIGHTS, FOLDER / "digits.calibration.json")
    out = tmp_path / "out"
    after = scores(host_engine, out / "digits.cfg", out / "digits.weights", out / "digits.calibration.json")
    assert after["agreement"] >= before["agreement"] - 0.01
    assert after["map50"] >= before["map50"] - 0.01


def test_equalisation_alone_keeps_the_outputs_in_fp32(
    host_engine: HostEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = repaired(tmp_path, capsys, "--only", "equalise", "--limit", "8")
    assert document["repairs"][0]["factors"] > 0
    assert document["layers"] == []
    weights = tmp_path / "digits.weights"
    assert weights.read_bytes() != WEIGHTS.read_bytes()
    shape = host_engine.info(CFG)["input"]
    picture = np.random.default_rng(1).random((1, *shape), np.float32)
    before, after = (
        host_engine.forward(CFG, each, picture, EngineOptions()).heads for each in (WEIGHTS, weights)
    )
    for head, values in before.items():
        assert np.abs(after[head] - values).max() <= 1e-4 * np.abs(values).max()


def test_given_ranges_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranges = FOLDER / "digits.calibration.json"
    document = repaired(tmp_path, capsys, "--calibration", str(ranges), "--only", "bias", "--limit", "4")
    assert [row["name"] for row in document["repairs"]] == ["bias"]
    written = json.loads((tmp_path / "digits.calibration.json").read_text())
    assert written["tensors"] == json.loads(ranges.read_text())["tensors"]
