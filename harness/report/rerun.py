"""The commands that measure a sweep or one of its cells again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.report.result import Row

BOARDS = ("--boards", "boards.yaml")  # results do not keep the name of the boards file


def sweep_command(sweep_file: str, folder: Path, rows: Sequence[Row]) -> str:
    """Measures the missing cells of a sweep, on boards if some of these rows were measured there."""
    words = ["harness", "run", "--matrix", sweep_file or "SWEEP.yaml", "--results", str(folder)]
    on_boards = any(not row.emulated and row.target != "host" for row in rows)
    return shlex.join([*words, *(BOARDS if on_boards else ())])


def cell_command(sweep_file: str, folder: Path, row: Row) -> str:
    """Measures one cell again, for as long as before if that was a sustained run."""
    words = ["--cell", row.name]
    if row.time_series:
        words += ["--sustained", f"{round(row.time_series[-1].seconds)}s"]
    return f"{sweep_command(sweep_file, folder, [row])} {shlex.join(words)} --fresh"
