"""Counting instructions, as far as it needs no emulator."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from harness.boards import instruction_counter
from harness.boards.instruction_counter import InstructionCounter, parse_count
from harness.errors import HarnessError


def test_the_last_count_is_read_among_other_lines() -> None:
    assert parse_count("mpe: warning: x\ninstructions 12\ninstructions 345\n") == 345


@pytest.mark.parametrize("text", ["", "no instructions 12\n", "instructions\n"])
def test_a_program_without_marks_is_an_error(text: str) -> None:
    with pytest.raises(HarnessError, match="made no marks"):
        parse_count(text)


def test_the_program_runs_under_the_plugin_with_the_core_of_the_target() -> None:
    counter = InstructionCounter(folder=Path("cache"))
    words = counter.command("cortex-a72", ["mpe", "bench"], {"LD_LIBRARY_PATH": "/a:/b"})
    assert words[-4:] == ["-E", "LD_LIBRARY_PATH=/a:/b", "mpe", "bench"]
    assert words[words.index("-cpu") + 1] == "cortex-a72"
    assert words[words.index("-plugin") + 1].endswith(".so")


def test_libraries_of_a_dynamic_program_include_its_loader() -> None:
    shell = Path(str(shutil.which("sh"))).resolve()
    libraries = instruction_counter._libraries(shell)
    assert "loader" in libraries
    assert any(name.startswith("libc.") for name in libraries)
    assert all(path.is_file() for path in libraries.values())


def test_what_is_no_dynamic_program_has_no_libraries() -> None:
    assert instruction_counter._libraries(Path(__file__)) == {}


def test_a_missing_emulator_is_said_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (line,) = instruction_counter.counter_missing()
    assert "apt-get install qemu-user" in line
    assert instruction_counter.prepare_counter() is None


def test_a_static_emulator_takes_no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: sys.executable)
    monkeypatch.setattr(instruction_counter, "_libraries", lambda _: {})
    (line,) = instruction_counter.counter_missing()
    assert "takes no plugins" in line
