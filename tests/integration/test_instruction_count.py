"""Counting a program's instructions on this machine, under QEMU."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from harness.boards.host import HostBoard
from harness.config.targets import load_target
from harness.errors import HarnessError
from harness.qemu.counter import counting_missing

pytestmark = pytest.mark.skipif(bool(counting_missing()), reason=counting_missing() or "everything is here")

LOOP = {
    "x86_64": '__asm__ volatile("1: dec %0\\n jnz 1b" : "+r"(rounds)::"cc");',
    "aarch64": '__asm__ volatile("1: subs %0, %0, #1\\n b.ne 1b" : "+r"(rounds)::"cc");',
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a loop of two instructions as often as it is told, between marks if it is told a second word."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "loop.c").write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n"
        "int main(int count, char** words) {\n"
        "  long rounds = atol(words[1]);\n"
        "  if (count > 2) close(7777777);\n"
        f"  {LOOP[platform.machine()]}\n"
        "  if (count > 2) close(7777778);\n"
        "  return 0;\n}\n"
    )
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-O1",
        "-o",
        str(folder / "loop"),
        str(folder / "loop.c"),
    ]
    subprocess.run([*command, "-o", str(folder / "loop")], check=True)
    return folder / "loop"


def test_instructions_between_the_marks_are_counted(program: Path) -> None:
    with HostBoard(load_target("host")) as board:
        counts = []
        for rounds in (1000, 501_000):
            counted = board.count_instructions([str(program), str(rounds), "marked"], timeout=60)
            assert counted[0].status == 0
            counts.append(counted[1])
    assert counts[1] - counts[0] == 2 * 500_000
    assert counts[0] < 10_000  # the rest of the program is not in it


def test_a_program_without_marks_is_an_error(program: Path) -> None:
    with HostBoard(load_target("host")) as board, pytest.raises(HarnessError, match="made no marks"):
        board.count_instructions([str(program), "1000"], timeout=60)
