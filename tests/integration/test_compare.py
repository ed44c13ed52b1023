"""`harness compare` of real sweeps on this machine: alike ones, and one with a slower network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_sweep import run, write_tiny_sweep

from harness.cli import main
from harness.runtimes.engine import host_engine

pytestmark = pytest.mark.engine

# Rounds of 20 ms, so that other programs on this machine disturb many samples or none.
SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights}]
policies: [fp32, fp16]
targets: [host]
options: OPTIONS
protocol: {warmup: 2, runs: 60, min_seconds: 0.12, rounds: 6}
"""


def measured(folder: Path, options: str = "[{}]") -> str:
    host_engine()
    folder.mkdir()
    data = run(write_tiny_sweep(folder, SWEEP.replace("OPTIONS", options)))
    assert {cell["status"] for cell in data["cells"]} == {"done"}
    return str(folder / "results")


def compared(*words: str, status: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["compare", *words, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_sweeps_of_the_same_engine_are_alike_and_plain_loops_are_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = measured(tmp_path / "first"), measured(tmp_path / "again")
    alike = compared(first, again, "--fail-on", "150%", status=0, capsys=capsys)
    for cell in alike["cells"]:
        assert cell["p_value"] is not None
        assert cell["low"] < cell["ratio"] < cell["high"]
        assert cell["changes"] == []  # memory, instruction set and outputs are the same
    plain = measured(tmp_path / "plain", "[{algorithm: reference}]")
    slower = compared(first, plain, "--ignore=options", "--fail-on", "5%", status=7, capsys=capsys)
    for cell in slower["cells"]:
        assert cell["low"] > 2
        assert (cell["outcome"], cell["significant"], cell["regression"]) == ("slower", True, True)
        assert "isa" in [change["name"] for change in cell["changes"]]
    assert main(["compare", first, plain]) == 2
    assert "no cell in common: options (default) in A, algorithm=reference in B" in capsys.readouterr().err
