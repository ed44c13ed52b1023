"""Sweeps over this machine and an emulated board."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tiny_sweep import query, results, run, write_tiny_sweep

from harness import cli
from harness.images.availability import emulation_missing
from harness.qemu.profiler import profiling_missing

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

SWEEP = """\
models:
  - {name: tiny, cfg: tiny.cfg, weights: tiny.weights, dataset: data, calibration: {images: 4}}
policies: [fp32, int8, {name: dynamic, default: int8, quantize: 1}]
targets: [pi4, host]
threads: [1, 2]
protocol: {warmup: 1, runs: 5, min_seconds: 0.05}
emulated: {images: 3}
"""
WITHOUT_DOCKER = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}


@pytest.fixture(scope="module")
def emulation() -> None:
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_tiny_sweep(tmp_path, SWEEP)


def on(target: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in data["cells"] if cell["target"] == target]


@pytest.mark.usefixtures("emulation")
def test_an_emulated_board_computes_what_the_host_evaluated(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = run(sweep)
    emulated, measured = on("pi4", data), on("host", data)
    assert len(emulated) == len(measured) == 6
    assert {cell["status"] for cell in data["cells"]} == {"done"}
    assert {cell["emulated"] for cell in emulated} == {True}
    assert {cell["emulated"] for cell in measured} == {False}
    for cell, other in zip(emulated, measured, strict=True):
        assert (cell["policy"], cell["accuracy"]) == (other["policy"], other["accuracy"])
        assert cell["instructions"] > 10_000
        assert other["instructions"] is None
        assert 0 < cell["predicted_low_ms"] < cell["predicted_ms"] < cell["predicted_high_ms"]
        assert cell["predicted_fps"] == pytest.approx(1e3 / cell["predicted_ms"])
        assert cell["prediction_validated"] is (cell["threads"] == 1)  # two of four were not compared
        assert cell["bytes_moved"] >= 0
        assert other["predicted_ms"] is None
        if cell["policy"] == "int8":
            assert cell["bit_exact"]
            assert cell["digest"] == other["digest"]
            assert cell["digest_matches_host"] is True
    # Instructions are those of one thread, whatever the cell's threads.
    counts = {(cell["policy"], cell["threads"]): cell["instructions"] for cell in emulated}
    for policy in ("fp32", "int8", "dynamic"):
        assert counts[policy, 1] == pytest.approx(counts[policy, 2], rel=0.01)
    assert any(cell["pareto_optimal"] for cell in emulated)
    layers = query(
        sweep,
        "SELECT count(*), count(predicted_ns) FROM layers JOIN cells USING (revision) "
        "JOIN plan ON cell = key WHERE plan.target = 'pi4'",
    )
    assert layers[0][0] == layers[0][1] > 0
    text = (sweep.parent / "results" / "report.md").read_text()
    assert "PREDICTED: times of a real board" in text

    words = ["report", str(sweep.parent / "results"), "--layers"]
    assert cli.main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    layers = on("pi4", shown)[0]["layers"]
    assert [layer["type"] for layer in layers] == ["convolutional"] * 3 + ["yolo"]
    assert sum(layer["predicted_ns"] for layer in layers) / 1e6 == pytest.approx(
        on("pi4", shown)[0]["predicted_ms"], rel=0.05
    )
    parts = [
        [layer[f"predicted_{part}_ns"] for part in ("compute", "activation", "conversion", "memory")]
        for layer in layers
    ]
    assert parts[3] == [None] * 4  # without multiply-adds
    for layer, each in zip(layers[:3], parts, strict=False):
        assert sum(each) == pytest.approx(layer["predicted_ns"], abs=4)
    assert cli.main(words) == 0
    assert "pi4 (emulated) tiny fp32 1 thread" in capsys.readouterr().out

    before = results(sweep)
    again = run(sweep, environment=WITHOUT_DOCKER)  # nothing is left to do: nobody asks for Docker
    assert again["cells"] == data["cells"]
    assert results(sweep) == before

    repeated = on("pi4", run(sweep, "--fresh"))
    for cell, other in zip(emulated, repeated, strict=True):
        assert cell["predicted_ms"] == pytest.approx(other["predicted_ms"], rel=0.001)

    # What cannot be done now does not replace results.
    lost = run(sweep, "--fresh", environment=WITHOUT_DOCKER, status=9)
    assert on("pi4", lost) == repeated


def test_without_docker_emulated_cells_are_skipped(sweep: Path) -> None:
    data = run(sweep, environment=WITHOUT_DOCKER, status=9)
    assert {cell["status"] for cell in on("host", data)} == {"done"}
    for cell in on("pi4", data):
        assert cell["status"] == "skipped"
        assert "apt-get install docker.io" in cell["error"]
        assert cell["fps"] is None
    assert query(sweep, "SELECT count(*) FROM artifacts WHERE name LIKE 'engine for pi4%'") == [(0,)]
    page = (sweep.parent / "results" / "report.html").read_text()
    assert "pi4 (emulated)" in page


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize(
    ("left_out", "hint"),
    [
        (r"llvm-mca?(-\d+)?", "apt-get install llvm-19"),
        (r"qemu-aarch64", "cannot profile: qemu-aarch64 not found: apt-get install qemu-user"),
    ],
)
def test_predictions_name_a_missing_program_and_work_once_it_is_installed(
    tmp_path: Path, left_out: str, hint: str
) -> None:
    sweep = write_tiny_sweep(
        tmp_path,
        "models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights}]\n"
        "policies: [fp32]\ntargets: [pi4]\nemulated: {images: 0}\n",
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not re.fullmatch(left_out, program.name):
                link = programs / program.name
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    (cell,) = run(sweep, environment={"PATH": str(programs)})["cells"]
    assert cell["status"] == "done"
    assert cell["p50_ms"] > 0
    assert cell["predicted_ms"] is None
    assert hint in cell["prediction_unavailable_reason"]
    assert hint in (tmp_path / "results" / "report.html").read_text()
    assert (cell["instructions"] is None) == (left_out == "qemu-aarch64")
    (cell,) = run(sweep)["cells"]
    assert cell["predicted_ms"] > 0
    assert cell["prediction_unavailable_reason"] is None
