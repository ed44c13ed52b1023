"""The command line: help, exit statuses, and no traceback unasked."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import PIL.Image
import pytest
from networks import write_sweep

from harness import cli, console, errors
from harness.commands.run import duration
from harness.config.targets import load_target
from harness.images import image as images
from harness.images.image import Image

SWEEP = (
    "models: [{name: net, cfg: net.cfg, weights: net.weights, dataset: data}]\n"
    "policies: [fp32, int8]\ntargets: [host, pi4]\n"
)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_a_sustained_time_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "m", "0s", "-1m", "1d", "1e3s", "999h", "1 m", "٣m"])
def test_invalid_durations_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "--matrix", "sweep.yaml", f"--sustained={text}"])
    assert caught.value.code == 2
    assert "is not a time from 1s to 168h, for example 90s, 30m or 2h" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--json", "--debug", "--quiet"))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from harness.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for module in ("numpy", "rich", "yaml", "docker", "fabric", "PIL", "sqlite3", "json", "subprocess"):
        assert f"'{module}'" not in done.stderr


def test_no_help_of_a_command_imports_a_package() -> None:
    code = (
        "import sys; from harness.cli import COMMANDS, main\n"
        "for command in COMMANDS:\n"
        "    try: main([command, '--help'])\n"
        "    except SystemExit: pass\n"
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for module in ("numpy", "rich", "yaml", "docker", "fabric", "PIL", "msgspec", "shtab", "onnx"):
        assert f"'{module}'" not in done.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigurationError, 2),
        (errors.BuildError, 3),
        (errors.TargetMismatchError, 4),
        (errors.BoardUnreachableError, 5),
        (errors.CellsFailedError, 6),
        (errors.BoardBusyError, 5),
        (errors.RegressionError, 7),
        (errors.ThrottledError, 8),
        (KeyboardInterrupt, 130),
        (ZeroDivisionError, 1),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_errors_have_exit_statuses(
    error: type[BaseException],
    status: int,
    debug: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(arguments: argparse.Namespace) -> int:
        raise error("what went wrong")

    monkeypatch.setattr(importlib.import_module("harness.commands.schema"), "run", run)
    assert cli.main(["schema", *(["--debug"] if debug else [])]) == status
    shown = capsys.readouterr().err
    assert ("Traceback" in shown) == debug
    assert "harness: " in shown


def test_an_argument_in_another_encoding_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "caf\udce9"]) == 2
    assert capsys.readouterr().err.startswith(r"harness: error: the argument caf\udce9 is not UTF-8")


def test_characters_missing_in_the_terminal_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"name": "Küche ☕"}]

    def run(arguments: argparse.Namespace) -> int:
        console.emit_json(rows) if arguments.json else print(rows[0]["name"])
        return 0

    monkeypatch.setattr(importlib.import_module("harness.commands.schema"), "run", run)
    shown = []
    for words in (["schema"], ["schema", "--json"]):
        output = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="ascii"))
        assert cli.main(words) == 0
        shown.append(output.getvalue().decode())
    assert shown[0] == "K\\xfcche \\u2615\n"
    assert json.loads(shown[1]) == rows


def test_messages_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "\x1b[31m\u202e"]) == 2
    assert r"\x1b[31m\u202e: no results" in capsys.readouterr().err


def test_a_closed_pipe_is_not_an_error() -> None:
    code = "import sys; from harness.cli import main; sys.exit(main(['schema']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 0


def test_dry_run_lists_cells_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = write_sweep(tmp_path, SWEEP)
    for folder in ("images", "labels"):
        (tmp_path / "data" / folder).mkdir()
    PIL.Image.new("RGB", (8, 8)).save(tmp_path / "data" / "images" / "a.png")
    (tmp_path / "data" / "labels" / "a.txt").touch()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["run", "--matrix", str(sweep), "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "host net fp32 1 thread",
        "host net int8 1 thread",
        "pi4 (emulated) net fp32 1 thread",
        "pi4 (emulated) net int8 1 thread",
    ]
    assert cli.main(["run", "--matrix", str(sweep), "--dry-run", "--cell", "int8", "--cell", "host"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["host", "host", "pi4"]
    assert "not including compilation and image builds" in shown.err
    searched = write_sweep(tmp_path, SWEEP.replace("policies: [", "policies: [{search: {target: pi4}}, "))
    assert cli.main(["run", "--matrix", str(searched), "--dry-run"]) == 0
    assert "not including compilation, image builds and the search of policies" in capsys.readouterr().err
    write_sweep(tmp_path, SWEEP)
    assert cli.main(["run", "--matrix", str(sweep), "--cell", "int16"]) == 2
    assert "no cell's name contains 'int16'" in capsys.readouterr().err
    assert cli.main(["run", "--matrix", str(sweep), "--dry-run", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["target"], cell["policy"], cell["emulated"]) for cell in cells][-1] == ("pi4", "int8", True)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_wrong_sweep_file_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = write_sweep(tmp_path, SWEEP.replace("policies", "polices"))
    assert cli.main(["run", "--matrix", str(sweep)]) == 2
    shown = capsys.readouterr().err
    assert shown == f"harness: error: {sweep}:2: unknown key polices in a sweep\n  Did you mean policies?\n"


def test_boards_are_not_watched_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = write_sweep(tmp_path, SWEEP)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "--matrix", str(sweep), "--watch", "--quiet"]) == 2
    assert "--watch and --quiet exclude each other" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_targets_and_schema_are_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = Image(target=load_target("pi4"), tag="t", id="i", base="bootstrap trixie", glibc="2.41")
    monkeypatch.setattr(images, "built_images", lambda _: {"pi4": built})
    assert cli.main(["targets", "--json"]) == 0
    names = {target["name"]: target for target in json.loads(capsys.readouterr().out)["targets"]}
    assert {"host", "pi4", "jetson-nano"} <= set(names)
    assert names["jetson-nano"]["glibc"] == "2.27"
    assert names["pi5"]["image_built"] is None
    assert names["pi4"]["image_built"] == {
        "tag": "t",
        "base": "bootstrap trixie",
        "source": "bootstrap",
        "glibc": "2.41",
        "glibc_newer": True,
    }
    assert cli.main(["targets"]) == 0
    assert "bootstrap trixie, glibc 2.41, newer" in capsys.readouterr().out
    assert cli.main(["targets"]) == 0
    assert "jetson-nano" in capsys.readouterr().out
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "object"


def test_a_report_of_an_empty_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "no results" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "pi4", "--toolchain", "zig"], "--toolchain zig cannot be used with --in image"),
        (["--target", "host"], "the target host has no image"),
    ],
)
def test_options_that_do_not_fit_an_image_are_usage_errors(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["build", "--in", "image", *words]) == 2
    assert said in capsys.readouterr().err
