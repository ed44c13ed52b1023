"""Short names of the cells of one board and model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.report.result import Row
from harness.text import printable


def cell_name(row: Row, among: Sequence[Row]) -> str:
    """The policy, and what else distinguishes a cell from the others of its board and model."""
    return naming(among)(row)


def naming(among: Sequence[Row]) -> Callable[[Row], str]:
    """`cell_name` for many cells: compares the cells of the board and model once, not for each name."""
    varied = {
        name: len({getattr(row, name) for row in among}) > 1
        for name in ("runtime", "toolchain", "threads", "options")
    }

    def name(row: Row) -> str:
        threads = f"{row.threads} thread{'s'[: row.threads > 1]}"
        texts = {
            "runtime": row.runtime,
            "toolchain": row.toolchain,
            "threads": threads,
            "options": row.options,
        }
        return printable(
            ", ".join([row.policy, *(text for key, text in texts.items() if text and varied[key])])
        )

    return name
