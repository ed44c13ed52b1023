"""Paths that the system refuses, in every option and every file that takes one."""

from __future__ import annotations

import argparse
import errno
import importlib
import json
import os
from pathlib import Path

import pytest
from networks import write_sweep

from harness import cli
from harness.accuracy.dataset import read_dataset
from harness.boards.inventory import read_boards
from harness.config.random_weights import random_weights_file
from harness.config.sweep_file import read_sweep
from harness.errors import BuildError, ConfigurationError, explained
from harness.files import write_atomically

SWEEP = "models: [{name: net, cfg: net.cfg, weights: net.weights}]\npolicies: [fp32]\ntargets: [host]\n"

# As arguments, where all else is right. Those of commands that need a built engine are tested with one.
COMMANDS = [
    "run --matrix {}.yaml",
    "run --matrix sweep.yaml --boards {}",
    "run --matrix sweep.yaml --results {}",
    "report {}",
    "report --matrix {}",
    "boards --boards {}",
    "boards probe --boards {}",
    "boards power shelf on --boards {}",
    "boards unlock shelf --boards {}",
    "build --target {}.yaml",
    "image --target {}.yaml",
    "doctor --target {}.yaml",
    "doctor --target pi4 --boards {}",
    "predict --cfg c --weights w --target {}.yaml",
    "predict --calibrate {} --target pi4",
    "predict --calibrate sweep.yaml --results {} --target pi4",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_sweep(tmp_path, SWEEP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("path", ["n" * 256, "ü" * 128, "a/" * 2100 + "b"])
@pytest.mark.parametrize("words", COMMANDS)
def test_too_long_paths_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, path: str
) -> None:
    before = sorted(folder.iterdir())
    assert cli.main([word.format(path) for word in words.split()]) in (2, 3)
    shown = capsys.readouterr().err
    assert path in shown
    assert "File name too long" in shown
    assert "a name has at most 255 bytes" in shown
    assert "unexpected" not in shown
    assert sorted(folder.iterdir()) == before


def test_weights_are_not_fetched_to_an_impossible_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["models", "fetch", "yolov3-tiny", "--url", "http://127.0.0.1:1/", "--to", "n" * 256]
    assert cli.main(words) == BuildError.exit_status
    shown = capsys.readouterr().err
    assert "yolov3-tiny.weights: cannot be written: File name too long\n" in shown
    assert "choose another folder with --to" in shown


def test_a_results_folder_that_sqlite_finds_too_long_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = "/".join(["d" * 200] * 3)
    assert cli.main(["run", "--matrix", "sweep.yaml", "--results", deep]) == ConfigurationError.exit_status
    shown = capsys.readouterr().err
    assert f"{deep}: cannot write results" in shown
    assert "SQLite accepts paths of up to about 500 bytes" in shown


@pytest.mark.parametrize("words", COMMANDS)
def test_links_that_lead_in_circles_and_folders_that_are_files_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    for name in ("loop.yaml", "loop"):
        (folder / name).symlink_to(name)
    for path in ("loop", "net.cfg/below"):
        assert cli.main([word.format(path) for word in words.split()]) == ConfigurationError.exit_status
        shown = capsys.readouterr().err
        assert path in shown
        assert "unexpected" not in shown


def written(folder: Path, document: object) -> tuple[Path, str]:
    """A file of the document, and the number of the line with PATH, which becomes too long."""
    text = json.dumps(document, indent=1)  # JSON is YAML
    number = next(n for n, line in enumerate(text.splitlines(), start=1) if "PATH" in line)
    file = folder / "written.yaml"
    file.write_text(text.replace("PATH", "n" * 256))
    return file, f"written.yaml:{number}: "


def refusal(error: ConfigurationError, where: str) -> bool:
    return where in error.message and "File name too long" in error.message and "255 bytes" in error.hint


@pytest.mark.parametrize("key", ["cfg", "weights", "dataset", "calibration", "labels"])
def test_a_sweep_files_paths_are_refused_with_their_line(folder: Path, key: str) -> None:
    model = {"name": "net", "cfg": "net.cfg", "weights": "net.weights"} | {key: "PATH"}
    file, where = written(folder, {"models": [model], "policies": ["fp32"], "targets": ["host"]})
    with pytest.raises(ConfigurationError) as caught:
        read_sweep(file)
    assert refusal(caught.value, where)


@pytest.mark.parametrize(
    "more",
    [
        {"key": "PATH"},
        {"known_hosts": "PATH"},
        {"target": "PATH.yaml"},
        {"jump": {"host": "gate", "user": "me", "key": "PATH"}},
        {"jump": {"host": "gate", "user": "me", "known_hosts": "PATH"}},
    ],
)
def test_a_boards_files_paths_are_refused_with_their_line(folder: Path, more: dict[str, object]) -> None:
    (folder / "known").touch()
    board = {"name": "shelf", "target": "pi4", "host": "192.0.2.7", "user": "pi", "known_hosts": "known"}
    file, where = written(folder, {"boards": [board | more]})
    with pytest.raises(ConfigurationError) as caught:
        read_boards(file)
    assert refusal(caught.value, where)


def test_a_picture_that_a_data_set_lists_is_refused_with_the_list(folder: Path) -> None:
    path = folder / "list.json"
    image = {"id": 1, "file_name": "n" * 256, "width": 2, "height": 2}
    path.write_text(json.dumps({"images": [image], "annotations": [], "categories": [{"id": 1}]}))
    with pytest.raises(ConfigurationError) as caught:
        read_dataset(path)
    assert refusal(caught.value, f"{path}: the picture nnn")


def test_a_file_may_have_the_longest_name_there_is(folder: Path) -> None:
    path = folder / ("n" * 255)
    write_atomically(path, b"data")
    assert path.read_bytes() == b"data"
    cfg = folder / ("ü" * 125 + "x.cfg")
    cfg.write_text("[net]")
    random_weights_file(cfg).parent.mkdir(parents=True)
    write_atomically(random_weights_file(cfg), b"")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EISDIR])
def test_system_errors_about_files_are_not_bugs_of_harness(number: int) -> None:
    error = explained(OSError(number, os.strerror(number), b"caf\xc3\xa9"))
    assert isinstance(error, ConfigurationError)
    assert error.message == f"café: cannot be used: {os.strerror(number)}"
    assert error.hint


@pytest.mark.parametrize("error", [OSError("of no file"), OSError(errno.EIO, "of no file"), ValueError("a")])
def test_other_errors_are_bugs(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: argparse.Namespace) -> int:
        raise error

    assert explained(error) is None
    monkeypatch.setattr(importlib.import_module("harness.commands.schema"), "run", run)
    assert cli.main(["schema"]) == 1
    assert "this is a bug in harness" in capsys.readouterr().err
