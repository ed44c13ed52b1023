"""The command that counts instructions, and its missing requirements."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.qemu.counter import InstructionCounter, prepare_counter, read_count


def test_the_program_is_run_with_the_plugin_and_its_own_variables() -> None:
    counter = InstructionCounter(emulator=Path("/bin/qemu"), plugin=Path("/p.so"))
    assert counter.command(["mpe", "bench"], {"A": "b"}, Path("/out")) == [
        *("/bin/qemu", "-cpu", "max", "-plugin", "/p.so,out=/out", "-d", "plugin", "-E", "A=b"),
        *("mpe", "bench"),
    ]


def test_without_an_emulator_the_hint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(HarnessError, match="qemu-x86_64 not found: apt-get install qemu-user"):
        prepare_counter()


def test_an_emulator_without_plugins_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    emulator = tmp_path / "qemu-x86_64"
    emulator.write_text("#!/bin/sh\necho usage\n")
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(HarnessError, match="does not support plugins"):
        prepare_counter()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "made no marks"),
        ("", "made no marks"),
        *(
            (text, "did not write a count")
            for text in ("many", "0", "-5", "nan", "1e9", "9" * 19, "1" * 5000)
        ),
    ],
)
def test_a_program_without_marks_is_an_error(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "count"
    if text is not None:
        path.write_text(text)
    with pytest.raises(HarnessError, match=said):
        read_count(path)
    path.write_text("12\n")
    assert read_count(path) == 12
