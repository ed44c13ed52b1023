"""Runs over time, cell by cell, and the verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.errors import ConfigurationError
from harness.report.compare.comparison import percent
from harness.report.compare.table import told
from harness.report.history.runs import DatedRun
from harness.report.history.series import Series, Step, all_series


@dataclass(frozen=True, kw_only=True)
class History:
    """The runs, the earliest first, and the series of each cell."""

    runs: Sequence[DatedRun]
    limit: float | None  # growth that makes a slow-down a regression, as a fraction
    series: Sequence[Series]

    @property
    def regressions(self) -> list[Series]:
        return [each for each in self.series if self.is_regression(each)]

    @property
    def nothing_searched(self) -> bool:
        return all(each.reason for each in self.series)

    def is_regression(self, series: Series) -> bool:
        return self.limit is not None and (series.slowdown or 0) > 1 + self.limit

    def run_of(self, series: Series, step: Step) -> DatedRun:
        """The first run at the new level."""
        return self.runs[series.points[step.point].run]


def history(runs: Sequence[DatedRun], limit: float | None = None) -> History:
    """Finds the steps. Raises ConfigurationError if no run has a result."""
    ordered = sorted(runs, key=lambda run: (run.side.run.started, run.name))
    found = History(runs=ordered, limit=limit, series=all_series(ordered))
    if not found.series:
        raise ConfigurationError(
            "no cell of these runs has a result",
            hint="`harness report` shows why the cells of a run have none.",
        )
    return found


def verdict(found: History) -> str:
    """One or two sentences: whether there is a regression, and how many cells have steps."""
    count = len(found.series)
    stepped = [each for each in found.series if each.steps]
    summary = f"{_counted(len(found.runs), 'run')}, {_counted(count, 'cell')}"
    slower = sum(each.steps[-1].ratio > 1 for each in stepped)
    parts = [f"{slower} slower after the last step"] if slower else []
    parts += [f"{len(stepped) - slower} faster after the last step"] if len(stepped) > slower else []
    unsearched = sum(each.reason is not None for each in found.series)
    steady = count - len(stepped) - unsearched
    parts += [f"{steady} without a step"] if steady else []
    parts += [f"{unsearched} with too few runs"] if unsearched else []
    return " ".join(filter(None, (_judgement(found), f"{summary}: {', '.join(parts)}.")))


def described(found: History, series: Series, step: Step) -> str:
    """A step for a note: its change, its run, and what else changed there."""
    run = found.run_of(series, step)
    commit = f", commit {run.commit[:10]}" if run.commit else ""
    text = f"{percent(step.ratio)} in {run.name} ({date(run)}{commit})"
    also = [f"{each.condition} {each.a} → {each.b}" for each in step.noted]
    also += map(told, step.changes)
    return text + (f", with {', '.join(also)}" if also else "")


def date(run: DatedRun) -> str:
    return datetime.fromtimestamp(run.side.run.started, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _judgement(found: History) -> str:
    if found.limit is None:
        return ""
    slower = f"more than {100 * found.limit:g} % slower than before a step"
    if regressions := found.regressions:
        verb = "is" if len(regressions) == 1 else "are"
        return f"Regression: {_counted(len(regressions), 'cell')} {verb} {slower}."
    if found.nothing_searched:
        return "No verdict: no cell has enough runs."
    return f"No regression: no cell is {slower}."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s'[: count != 1]}"
