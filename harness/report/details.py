"""Which cells of a report have their layers and samples in its page. All of a large sweep would not fit."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.choice import fastest, front
from harness.report.comparison import BASELINE, fp32_of
from harness.report.result import Row

_MOST_OF_GROUP = 8  # of one board and model
_MOST = 48


def detailed(rows: Sequence[Row]) -> list[int]:
    """The positions of these rows: of each board and model the front, its fp32 cells and the Pareto-optimal
    ones, then others."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, row in enumerate(rows):
        if row.status == "done" and not row.step:
            groups.setdefault((row.target, row.emulated, row.model), []).append(index)
    found: list[int] = []
    for group in groups.values():
        first = set(map(id, compared([rows[index] for index in group])))

        def rank(index: int, first: set[int] = first) -> tuple[bool, bool, bool]:
            row = rows[index]
            return id(row) not in first, not row.pareto_optimal, row.policy != BASELINE

        found += sorted(sorted(group, key=rank)[:_MOST_OF_GROUP])
    return found[:_MOST]


def compared(rows: Sequence[Row]) -> list[Row]:
    """The fp32 cell and the fastest cell of the front, for a comparison of two; without accuracies the
    fastest cell."""
    if not rows:
        return []
    chosen = fastest(front(rows) or rows)
    base = fp32_of(chosen, rows)
    return [chosen] if base is None or base is chosen else [base, chosen]
