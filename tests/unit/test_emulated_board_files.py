"""Which of this machine's files the container of an emulated board sees, so that they need not be sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.boards.emulated import EmulatedBoard, seen_below
from harness.boards.ssh.board import SshBoard
from harness.config.targets import load_target
from harness.sdk.layout import sdk_directory


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    path = sdk_directory() / "tensorflow-2" / "lib" / "libtensorflow_cc.so.2"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"large")
    for step in (sdk_directory(), path.parent.parent, path.parent):
        step.chmod(0o755)
    path.chmod(0o644)
    return path


def test_files_that_all_users_may_read_are_found(library: Path, tmp_path: Path) -> None:
    assert seen_below(sdk_directory(), library) == "tensorflow-2/lib/libtensorflow_cc.so.2"
    (tmp_path / "link").symlink_to(library)
    assert seen_below(sdk_directory(), tmp_path / "link") == "tensorflow-2/lib/libtensorflow_cc.so.2"


def test_unreadable_files_and_files_elsewhere_are_not_found(library: Path, tmp_path: Path) -> None:
    assert seen_below(sdk_directory(), tmp_path / "elsewhere") is None
    assert seen_below(sdk_directory(), library.with_name("absent")) is None
    library.chmod(0o640)
    assert seen_below(sdk_directory(), library) is None
    library.chmod(0o644)
    library.parent.chmod(0o750)
    assert seen_below(sdk_directory(), library) is None


def test_only_the_other_files_are_sent(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def deploy(_self: SshBoard, files: Mapping[str, Path]) -> Mapping[str, str]:
        sent.extend(files)
        return {name: f"/there/{path.name}" for name, path in files.items()}

    monkeypatch.setattr(SshBoard, "deploy", deploy)
    program = tmp_path / "program"
    program.touch()
    paths = EmulatedBoard(load_target("pi4")).deploy({"program": program, "library": library})
    assert sent == ["program"]
    assert list(paths.items()) == [
        ("program", "/there/program"),
        ("library", "/opt/sdk/tensorflow-2/lib/libtensorflow_cc.so.2"),
    ]
