"""docs/tutorial.md to the letter: its commands before the board, in order, with the file that it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documented_commands import REPOSITORY, blocks

pytestmark = pytest.mark.emulation


def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")
    before_the_board, found, _ = text.partition("\n## On a board\n")
    assert found
    (file_name,) = re.findall(r"Save this as `(\S+)`", before_the_board)
    (sweep,) = blocks(before_the_board, "yaml")
    (tmp_path / file_name).write_text(sweep)
    (tmp_path / "cfg").symlink_to(REPOSITORY / "cfg")
    # The first block installs what these tests have: `harness` is that of this checkout.
    program = tmp_path / "bin" / "harness"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m harness "$@"\n')
    program.chmod(0o755)
    shell = shutil.which("bash")
    assert shell
    _, *scripts = blocks(before_the_board, "sh")
    done = subprocess.run(
        [shell, "-euo", "pipefail", "-c", "".join(scripts)],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "int8-fp32-ends" in done.stdout
    assert "Predicted from an emulated run" in done.stdout
    assert (tmp_path / "results" / "first" / "results.sqlite").is_file()
