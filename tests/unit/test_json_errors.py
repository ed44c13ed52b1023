"""With --json a failure is an object on standard output, for every command and every kind of failure."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from networks import write_sweep
from test_signals import start

from harness import cli, console, errors

SWEEP = (
    "models: [{name: net, cfg: net.cfg, weights: net.weights, dataset: data}]\n"
    "polices: [fp32, int8]\ntargets: [host]\n"
)


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """The error object, which is all that standard output holds, and standard error."""
    found = capsys.readouterr()
    document = json.loads(found.out)
    assert list(document) == ["error"]
    assert list(document["error"]) == ["status", "message", "hint", "where"]
    return document["error"], found.err


def fail_with(monkeypatch: pytest.MonkeyPatch, command: str, error: BaseException, *data: object) -> None:
    def run(arguments: argparse.Namespace) -> int:
        for document in data:
            console.emit_json(document)
        raise error

    monkeypatch.setattr(importlib.import_module(cli.module_of(command)), "run", run)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_wrong_usage_of_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--json", "--no-such-option"])
    assert caught.value.code == 2
    error, said = shown(capsys)
    assert error["status"] == 2
    assert error["message"] in said
    assert said.startswith("usage: harness")
    assert "--help" in error["hint"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "the following arguments are required: COMMAND"),
        (["no-such-command", "--json"], "no-such-command"),
        (["run", "--js"], "--matrix"),
        (["boards", "--json", "power", "desk"], "off|on|cycle"),
        (["boards", "power", "desk", "explode", "--json"], "explode"),
        (["run", "--json", "--matrix", "sweep.yaml", "--sustained=forever"], "'forever' is not a time"),
    ],
)
def test_wrong_usage_wherever_the_option_stands(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    error, said = shown(capsys)
    assert message.replace("off|on|cycle", "switch") in error["message"]
    assert error["message"] in said


def test_wrong_usage_without_the_option_leaves_standard_output_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["run"])
    assert caught.value.code == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert "harness run: error: the following arguments are required: --matrix" in found.err


def test_an_error_in_a_file_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = write_sweep(tmp_path, SWEEP)
    assert cli.main(["run", "--json", "--matrix", str(sweep)]) == 2
    error, said = shown(capsys)
    assert error == {
        "status": 2,
        "message": f"{sweep}:2: unknown key polices in a sweep",
        "hint": "Did you mean policies?",
        "where": f"{sweep}:2",
    }
    assert said.startswith(f"harness: error: {sweep}:2: ")


@pytest.mark.parametrize(
    ("error", "status", "where"),
    [
        (errors.BoardUnreachableError("desk (pi@192.0.2.7:22): connecting: no", where="desk"), 5, "desk"),
        (errors.ConfigurationError("net.cfg:7: no such key"), 2, "net.cfg:7"),
        (errors.ConfigurationError("my nets/a b.cfg:7: no such key"), 2, "my nets/a b.cfg:7"),
        (errors.HarnessError("layer 3 (convolutional) computes infinite values or NaN"), 1, "layer 3"),
        (errors.ConfigurationError("results/mine: no results"), 2, "results/mine"),
        (errors.BuildError("the Docker Engine does not answer: permission denied"), 3, None),
        (errors.CellsFailedError("2 of 12 cells failed:\n  net.cfg:3: no"), 6, None),
        (ZeroDivisionError("by zero"), 1, None),
        (FileNotFoundError(2, "No such file or directory", "a b"), 2, "a b"),
        (KeyboardInterrupt(), 130, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_kind_of_failure(
    error: BaseException,
    status: int,
    where: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail_with(monkeypatch, "schema", error)
    assert cli.main(["schema", "--json"]) == status
    found, _ = shown(capsys)
    assert (found["status"], found["where"]) == (status, where)
    assert found["message"]


def test_a_failure_after_the_data_prints_no_second_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, "schema", errors.CellsFailedError("1 of 2 cells failed"), {"cells": []})
    for _ in range(2):  # also in the second run of one process
        assert cli.main(["schema", "--json"]) == 6
        assert json.loads(capsys.readouterr().out) == {"cells": []}
    fail_with(monkeypatch, "schema", errors.CellsFailedError("2 of 2 cells failed"))
    assert cli.main(["schema", "--json"]) == 6
    assert shown(capsys)[0]["message"] == "2 of 2 cells failed"


def test_data_that_is_not_json_is_not_printed_partly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, "schema", ZeroDivisionError(), {"first": 1, "second": float("nan")})
    assert cli.main(["schema", "--json"]) == 1
    assert "ValueError" in shown(capsys)[0]["message"]


def test_an_argument_in_another_encoding(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--json", "caf\udce9"]) == 2
    assert shown(capsys)[0]["message"] == r"the argument caf\udce9 is not UTF-8"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_end_by_signal(number: signal.Signals, status: int, tmp_path: Path) -> None:
    process = start(tmp_path, words=("--json",))
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert json.loads(stdout)["error"]["status"] == status


def test_a_closed_pipe_is_not_a_second_failure() -> None:
    code = "import sys; from harness.cli import main; sys.exit(main(['report', '--json', '/nowhere']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said.count("\n") == 2
    assert "Traceback" not in said
