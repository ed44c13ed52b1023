"""harness advise measures what is missing, on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.store.store import Store

pytestmark = pytest.mark.engine

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"


def test_a_model_is_measured_once_and_judged_by_any_limits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        "advise",
        "--json",
        "--cfg",
        str(DIGITS / "digits.cfg"),
        "--weights",
        str(DIGITS / "digits.weights"),
    ]
    words += ["--dataset", str(DIGITS / "data"), "--limit", "20", "--resize", "stretch", "--target", "host"]
    words += ["--runtime", "engine", "--results", str(tmp_path)]
    assert cli.main([*words, "--max-drop", "100"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommendation"]["meets"]
    assert {row["policy"] for row in found["rows"]} == {"fp32", "fp16", "int8-dynamic", "int8"}
    assert all(check["value"] is not None for row in found["rows"] for check in row["checks"])
    smallest = min(row["memory_bytes"] for row in found["rows"])

    impossible = ["--min-fps", "1e6", "--max-memory", str(smallest / (1 << 20) / 2)]
    assert cli.main([*words, *impossible]) == 10
    again = json.loads(capsys.readouterr().out)
    assert again["recommendation"] is None
    assert {near["limit"] for near in again["nearest"]} >= {"speed", "memory"}
    speeds = [row["measured_fps"] for row in found["rows"]]
    assert [row["measured_fps"] for row in again["rows"]] == speeds  # nothing was measured again

    # The sweep that it wrote has the same cells.
    assert cli.main(["run", "--matrix", str(tmp_path / "sweep.yaml"), "--results", str(tmp_path)]) == 0
    with Store(tmp_path) as store:
        assert {store.measured_in(cell.key) for run in store.runs() for cell in store.planned(run.id)} == {1}
