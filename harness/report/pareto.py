"""Finds the Pareto-optimal cells of each target and model.

A difference in speed or accuracy counts if it is larger than the noise. A cell is not ranked if a figure is
missing that other cells have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from harness.measure.intervals import ratio_interval
from harness.report.comparison import accuracy_reach
from harness.report.result import Row

MIB = 1 << 20
PREDICTED = "predicted FPS"
INSTRUCTIONS = "instructions"


def pareto_optimal(rows: Sequence[Row]) -> set[int]:
    """The positions of the optimal rows. Emulated cells and measured ones are never compared."""
    optimal: set[int] = set()
    for group in _groups(rows):
        optimal.update(group.optimal())
    return optimal


def not_ranked(rows: Sequence[Row]) -> dict[int, list[str]]:
    """The missing figures of rows that are not ranked, by the positions of these rows."""
    return {
        index: names for group in _groups(rows) for index in group.merits if (names := group.unknown(index))
    }


def emulated_merit(rows: Sequence[Row]) -> str:
    """The figure that ranks emulated rows: predicted times if every row has one."""
    done = [row for row in rows if row.status == "done"]
    return PREDICTED if done and all(row.predicted_ms for row in done) else INSTRUCTIONS


def _groups(rows: Sequence[Row]) -> list[_Group]:
    groups: dict[tuple[str, str, bool], dict[int, Row]] = defaultdict(dict)
    for index, row in enumerate(rows):
        if row.status == "done" and not row.step:  # steps are compared with each other in their order
            groups[row.target, row.model, row.emulated][index] = row
    return [_Group(members) for members in groups.values()]


class _Group:
    """Rows that are compared, by their positions."""

    def __init__(self, rows: Mapping[int, Row]) -> None:
        by_prediction = emulated_merit(list(rows.values())) == PREDICTED
        self.rows = rows
        self.merits = {index: _merits(row, by_prediction) for index, row in rows.items()}
        self._known = {
            name for merits in self.merits.values() for name, value in merits.items() if value is not None
        }
        # Cells share evaluations: the intervals of their differences are computed once.
        first: dict[object, int] = {}
        self._evaluated = {
            index: first.setdefault((row.policy, row.accuracy), index) for index, row in rows.items()
        }
        self._surely: dict[tuple[int, int], bool] = {}

    def unknown(self, index: int) -> list[str]:
        """The figures that a row lacks and others have."""
        return [name for name, value in self.merits[index].items() if value is None and name in self._known]

    def optimal(self) -> set[int]:
        """The ranked rows that no other dominates.

        The relation is not transitive, because a difference within the noise does not count: a row has to be
        compared also with rows that are dominated. But one in more memory dominates none in less, and the row
        that dominated the one before mostly dominates the next, too.
        """
        # Among ranked rows each figure is known of all or of none.
        ranks = {
            index: tuple(merits[name] or 0.0 for name in ("memory", "speed", "accuracy"))
            for index, merits in self.merits.items()
            if not self.unknown(index)
        }
        ranked = sorted(ranks, key=ranks.__getitem__, reverse=True)
        memories = [-ranks[index][0] for index in ranked]
        found, last = set(), ranked[:1]
        for index in ranked:
            own = ranks[index]
            no_larger = ranked[: bisect_right(memories, -own[0])]
            for other in chain(last, no_larger):
                if ranks[other] != own and self.dominates(other, index):
                    last = [other]
                    break
            else:
                found.add(index)
        return found

    def dominates(self, one: int, other: int) -> bool:
        """Whether one row is better than another in one figure and worse in none."""
        better = (self._smaller, self._faster, self._more_accurate)
        return any(each(one, other) for each in better) and not any(each(other, one) for each in better)

    def _smaller(self, one: int, other: int) -> bool:
        return self._more("memory", one, other)

    def _faster(self, one: int, other: int) -> bool:
        if not self._more("speed", one, other):
            return False
        time, others = self.rows[one].mean_time, self.rows[other].mean_time
        return not time or not others or ratio_interval(time, others)[0] > 1

    def _more_accurate(self, one: int, other: int) -> bool:
        if not self._more("accuracy", one, other):
            return False
        pair = self._evaluated[one], self._evaluated[other]
        if pair not in self._surely:
            row, beside = self.rows[pair[0]], self.rows[pair[1]]
            reach = accuracy_reach(row, beside)
            change = (row.accuracy or 0.0) - (beside.accuracy or 0.0)
            self._surely[pair] = reach is None or change > reach
        return self._surely[pair]

    def _more(self, name: str, one: int, other: int) -> bool:
        value, others = self.merits[one][name], self.merits[other][name]
        return value is not None and others is not None and value > others


def _merits(row: Row, by_prediction: bool) -> dict[str, float | None]:
    """Speed, accuracy and memory with the precision of a table, the larger the better. None: unknown."""
    if row.emulated:
        cost = row.predicted_ms if by_prediction else row.instructions
        speed = -_significant(cost) if cost else None
        known = row.arena_bytes is not None and row.weight_bytes is not None
        memory = (row.arena_bytes or 0) + (row.weight_bytes or 0) if known else None
    else:
        speed = _significant(row.fps) if row.fps else None
        memory = row.peak_rss_bytes
    return {
        "speed": speed,
        "accuracy": None if row.accuracy is None else round(row.accuracy, 4),
        "memory": None if memory is None else -round(memory / MIB, 1),
    }


def _significant(value: float) -> float:
    return float(f"{value:.3g}")
