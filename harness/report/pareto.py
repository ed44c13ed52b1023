"""Which cells are worth a choice: no other of the same target and model is better and nowhere worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.report.result import Row

MIB = 1 << 20
PREDICTED = "predicted FPS"
INSTRUCTIONS = "instructions"


def pareto_optimal(rows: Sequence[Row]) -> set[int]:
    """The positions of the optimal rows. Emulated cells and measured ones are never compared."""
    groups: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.status == "done" and not row.step:  # steps are compared with each other in their order
            groups[row.target, row.model, row.emulated].append(index)
    optimal: set[int] = set()
    for members in groups.values():
        by_prediction = emulated_merit([rows[index] for index in members]) == PREDICTED
        merits = {index: _merits(rows[index], by_prediction) for index in members}
        optimal.update(
            index
            for index in members
            if not any(_dominates(merits[other], merits[index]) for other in members)
        )
    return optimal


def emulated_merit(rows: Sequence[Row]) -> str:
    """What emulated rows are compared by: times predicted for a board where every row has one."""
    done = [row for row in rows if row.status == "done"]
    return PREDICTED if done and all(row.predicted_ms for row in done) else INSTRUCTIONS


def _merits(row: Row, by_prediction: bool) -> tuple[float, ...]:
    """Speed, accuracy and memory, the larger the better, and as exactly as a table shows them.

    What nobody can tell apart is equal; what is not known counts as nothing.
    """
    if row.emulated:
        cost = row.predicted_ms if by_prediction else row.instructions
        speed = -_significant(cost) if cost else 0.0
        memory = (row.arena_bytes or 0) + (row.weight_bytes or 0)
    else:
        speed = _significant(row.fps or 0.0)
        memory = row.peak_rss_bytes or 0
    return speed, round(row.accuracy or 0.0, 4), -round(memory / MIB, 1)


def _significant(value: float) -> float:
    return float(f"{value:.3g}")


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
