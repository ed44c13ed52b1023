"""Sensitivities of the detector that ships, with the real engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.accuracy.evaluate import evaluate
from harness.resources import resource
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.evaluator import Evaluator

pytestmark = pytest.mark.engine

FOLDER = resource("cfg", "digits")
CFG, WEIGHTS, DATA = FOLDER / "digits.cfg", FOLDER / "digits.weights", FOLDER / "data"
CALIBRATION = FOLDER / "digits.calibration.json"


def test_an_assignment_scores_as_its_cfg_does(host_engine: HostEngine, tmp_path: Path) -> None:
    options = EngineOptions(threads=2, calibration=CALIBRATION)
    with Evaluator(
        host_engine,
        cfg=CFG,
        weights=WEIGHTS,
        dataset=DATA,
        calibration=CALIBRATION,
        limit=40,
        options=options,
        folder=tmp_path,
    ) as evaluator:
        assignment = evaluator.uniform("int8").changed({evaluator.layers[0]: "fp32"})
        fp32, found = evaluator.evaluate([evaluator.uniform("fp32"), assignment])
        cfg = tmp_path / "assignment.cfg"
        cfg.write_text(assignment.applied(evaluator.network).text)
    result = evaluate(
        host_engine, cfg=cfg, weights=WEIGHTS, dataset=DATA, limit=40, options=options, agreement=True
    )
    assert (found.accuracy, found.agreement) == (result["map50"], result["agreement"])
    assert found.accuracy != fp32.accuracy
    assert (fp32.similarity, fp32.agreement, fp32.noise) == (1.0, 1.0, 0.0)


def test_the_sensitivities_of_the_shipped_detector(
    host_engine: HostEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sensitivity", "--cfg", CFG, "--weights", WEIGHTS, "--dataset", DATA, "--results", tmp_path]
    words += ["--calibration", CALIBRATION, "--limit", 8, "--precision", "int8", "fp16", "--json"]
    documents = []
    for _ in range(2):
        assert cli.main([str(word) for word in words]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    first, again = documents
    rows = {(row["index"], row["precision"]): row for row in first["layers"]}
    weighted = {index for index, _ in rows}
    assert len(rows) == 2 * len(weighted) == 2 * 13
    for layer in weighted:
        assert rows[layer, "int8"]["sqnr_db"] < rows[layer, "fp16"]["sqnr_db"] - 10
        assert rows[layer, "int8"]["ms"] > 0
        assert rows[layer, "int8"]["similarity"] < rows[layer, "fp16"]["similarity"]
    fp32, int8, fp16 = (row["similarity"] for row in first["uniform"])
    assert int8 < fp16 < fp32 == 1
    assert max(row["gain"] for row in first["layers"] if row["precision"] == "int8") > 0
    assert len(first["path"]) == 8
    assert first["path"][-1]["similarity"] > int8
    assert first["executed"] > 3 * len(weighted)
    assert again["executed"] == 0
    assert [row["name"] for row in again["layers"]] == [row["name"] for row in first["layers"]]
