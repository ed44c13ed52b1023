"""The commands that measure a sweep or one of its cells again."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.report.result import Row


def sweep_command(sweep_file: str, folder: Path) -> str:
    """Measures the missing cells of a sweep."""
    return shlex.join(["harness", "run", "--matrix", sweep_file or "SWEEP.yaml", "--results", str(folder)])


def cell_command(sweep_file: str, folder: Path, row: Row) -> str:
    """Measures one cell again, for as long as before if that was a sustained run."""
    words = ["--cell", row.name]
    if row.time_series:
        words += ["--sustained", f"{round(row.time_series[-1].seconds)}s"]
    return f"{sweep_command(sweep_file, folder)} {shlex.join(words)} --fresh"
