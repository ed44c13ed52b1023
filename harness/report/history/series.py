"""The results of each cell over time, and the steps in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.measure.ratio_test import typical_time
from harness.measure.steps import levels, steps, why_unsearched
from harness.report.compare.conditions import Unlike, noted_conditions, unlike_conditions
from harness.report.compare.difference import SIGNIFICANT, Change, Figure, changes_between
from harness.report.compare.side import MeasuredCell
from harness.report.history.runs import DatedRun
from harness.store.reader import SPEC_COLUMNS

Identity = tuple[object, ...]
_IDENTITY = [name for name in SPEC_COLUMNS if name != "note"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A result of a cell; `run` is its index among the history's runs."""

    run: int
    cell: MeasuredCell
    value: float


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of level. `point` is the index of the first point of the new level."""

    point: int
    before: float
    after: float
    noted: Sequence[Unlike]  # what else differs between the points before and after
    changes: Sequence[Change]

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, kw_only=True)
class Series:
    """The results of a cell under the same conditions, the earliest first."""

    figure: Figure
    points: Sequence[Point]
    conditions: str = ""  # those that differ from another series of the same cell
    steps: Sequence[Step] = ()
    reason: str | None = None  # why no steps can be found

    @property
    def last(self) -> MeasuredCell:
        return self.points[-1].cell

    @property
    def change(self) -> float:
        """The last value divided by the first."""
        return self.points[-1].value / self.points[0].value

    @property
    def slowdown(self) -> float | None:
        """The last level divided by the lowest one before it; None without steps."""
        if not self.steps:
            return None
        return self.steps[-1].after / min(step.before for step in self.steps)


def all_series(runs: Sequence[DatedRun]) -> list[Series]:
    """The series of all cells with a result, in the order in which cells first appear. Results that were
    measured under unlike conditions, such as on another board, are separate series."""
    cells: dict[tuple[Identity, Figure], list[list[Point]]] = {}
    seen: set[tuple[Identity, str, float]] = set()
    for index, run in enumerate(runs):
        for cell in run.side.cells:
            identity = tuple(getattr(cell.row, name) for name in _IDENTITY)
            result = (identity, cell.key, run.side.run.started)
            found = _value(cell)
            # A result that several runs share belongs to the run that measured it.
            if found is None or cell.measured_in != run.side.run.id or result in seen:
                continue
            seen.add(result)
            figure, value = found
            _add(cells.setdefault((identity, figure), []), Point(run=index, cell=cell, value=value))
    parted = [
        replace(series, conditions=_told_apart(group, each))
        for (_, figure), group in cells.items()
        for each in group
        for series in [Series(figure=figure, points=each)]
    ]
    return _searched(parted)


def _value(cell: MeasuredCell) -> tuple[Figure, float] | None:
    """As `harness compare` compares it, in milliseconds or instructions; None: no result."""
    row = cell.row
    if row.status != "done":
        return None
    if not row.emulated:
        return ("time_ms", typical_time(cell.rounds) / 1e6) if cell.rounds else None
    if row.predicted_ms:
        return "predicted_ms", row.predicted_ms
    return ("instructions", float(row.instructions)) if row.instructions else None


def _add(group: list[list[Point]], point: Point) -> None:
    """Appends a point to the first series that was measured under the same conditions."""
    for points in group:
        if not unlike_conditions([(points[-1].cell, point.cell)]):
            points.append(point)
            return
    group.append([point])


def _told_apart(group: Sequence[Sequence[Point]], points: Sequence[Point]) -> str:
    for other in group:
        if other is not points:
            unlike = unlike_conditions([(other[-1].cell, points[-1].cell)])
            return ", ".join(f"{each.condition} {each.b}" for each in unlike)
    return ""


def _searched(parted: Sequence[Series]) -> list[Series]:
    """The series with their steps. The probability of any false alarm in all measured series together is
    limited to SIGNIFICANT (Bonferroni)."""
    reasons = [None if each.last.row.emulated else why_unsearched(len(each.points)) for each in parted]
    searched = sum(
        not each.last.row.emulated and reason is None for each, reason in zip(parted, reasons, strict=True)
    )
    return [
        replace(each, reason=reason, steps=() if reason else _steps(each, SIGNIFICANT / max(searched, 1)))
        for each, reason in zip(parted, reasons, strict=True)
    ]


def _steps(series: Series, level: float) -> list[Step]:
    values = [point.value for point in series.points]
    if series.last.row.emulated:  # computed: every change is a step
        places = [place for place in range(1, len(values)) if values[place] != values[place - 1]]
    else:
        places = steps([math.log(value) for value in values], level)
    means = [math.exp(level) for level in levels([math.log(value) for value in values], places)]
    return [
        _step(series.points, place, before, after)
        for place, before, after in zip(places, means[:-1], means[1:], strict=True)
    ]


def _step(points: Sequence[Point], place: int, before: float, after: float) -> Step:
    pair = (points[place - 1].cell, points[place].cell)
    return Step(
        point=place,
        before=before,
        after=after,
        noted=noted_conditions([pair]),
        changes=list(changes_between(pair[0].row, pair[1].row)),
    )
