"""Short names of the cells of one board and model."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.result import Row
from harness.text import printable


def cell_name(row: Row, among: Sequence[Row]) -> str:
    """The policy, and what else distinguishes a cell from the others of its board and model."""
    threads = f"{row.threads} thread{'s'[: row.threads > 1]}"
    others = {"runtime": row.runtime, "toolchain": row.toolchain, "threads": threads, "options": row.options}
    varied = (
        text for name, text in others.items() if text and len({getattr(other, name) for other in among}) > 1
    )
    return printable(", ".join([row.policy, *varied]))
