"""Runtimes are found by their names, and one more takes a file and a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from networks import write_sweep

from harness import cli
from harness.config.runtimes import RUNTIMES
from harness.config.sweep_file import read_sweep
from harness.errors import ConfigurationError
from harness.runtimes.base import Program, Runtime, find_runtime
from harness.runtimes.engine_runtime import EngineRuntime
from harness.sweep.inputs import SweepInputs

SWEEP = (
    "models: [{name: net, cfg: net.cfg, weights: net.weights}]\n"
    "policies: [fp32]\ntargets: [host]\nruntimes: [printing]\n"
    "protocol: {warmup: 0, runs: 4, min_seconds: 0, rounds: 2, cool_seconds: 0}\nemulated: {images: 0}\n"
)


def test_every_runtime_can_be_imported() -> None:
    assert [isinstance(find_runtime(name), Runtime) for name in RUNTIMES] == [True] * len(RUNTIMES)


def test_an_unknown_runtime_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="unknown runtime engin") as error:
        read_sweep(write_sweep(tmp_path, SWEEP.replace("printing", "engin")))
    assert "engine" in error.value.hint


def test_a_runtime_that_only_prints_takes_one_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(RUNTIMES, "printing", "printing_runtime:PrintingRuntime")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    # The sweep checks models with the engine of this machine, which is not built here.
    monkeypatch.setattr(
        EngineRuntime, "prepare", lambda *_: Program(path=Path("/bin/false"), sha256="0" * 64)
    )
    monkeypatch.setattr(SweepInputs, "check", lambda *_: None)
    monkeypatch.setattr(SweepInputs, "multiply_adds", lambda *_: 1)
    sweep = write_sweep(tmp_path, SWEEP)
    (tmp_path / "net.weights").write_bytes(bytes(4540))  # as many as the cfg takes
    results = tmp_path / "results"
    assert cli.main(["run", "--matrix", str(sweep), "--results", str(results), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["runtime"], cell["status"], cell["fps"]) == ("printing", "done", 500.0)
    assert (cell["arena_bytes"], cell["digest"], cell["rounds"]) == (None, None, [2, 2])
    assert cli.main(["report", str(results), "--layers", "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    (layer,) = cell["layers"]
    assert (layer["precision"], layer["executed"], layer["isa"]) == ("int8", "fp32", "paper")
