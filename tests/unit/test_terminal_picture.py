"""tools/terminal_picture.py: the output of a command on a terminal, as SVG."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.terminal_picture import main, output_of

PROGRAM = """
import os, sys
print(sys.stdout.isatty(), os.get_terminal_size().columns)
print("\\x1b[1mbold\\x1b[0m")
"""


def test_a_command_writes_to_a_terminal_of_the_requested_width() -> None:
    assert output_of([sys.executable, "-c", PROGRAM], 72) == "True 72\n\x1b[1mbold\x1b[0m\n"


def test_a_picture_has_the_text_and_the_title(tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    assert main(["--columns", "40", "--title", "a title", str(picture), sys.executable, "-c", PROGRAM]) == 0
    svg = picture.read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    for text in ("a&#160;title", "True&#160;40", ">bold<"):
        assert text in svg


def test_a_failing_command_leaves_no_picture(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        main([str(tmp_path / "p.svg"), sys.executable, "-c", "raise SystemExit(3)"])
    assert list(tmp_path.iterdir()) == []
