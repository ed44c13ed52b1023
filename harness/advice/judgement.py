"""Compares the figures of rows with the limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.advice.limits import Check, Limits
from harness.report.choice import memory_of, speed_interval_of
from harness.report.comparison import BASELINE, accuracy_reach, speed_of
from harness.report.result import Row


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A row with a result, and its figures beside their limits."""

    row: Row
    checks: tuple[Check, ...]

    @cached_property
    def missed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.met is False)

    @cached_property
    def unknown(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.met is None)

    @property
    def meets(self) -> bool | None:
        """Whether it meets all limits; None: it misses none of those that are known."""
        if self.missed:
            return False
        return None if self.unknown else True

    @property
    def speed(self) -> float:
        """Frames per second, of emulated rows the predicted ones; 0 if unknown."""
        return speed_of(self.row) or 0.0

    @property
    def memory(self) -> int | None:
        """The bytes that count as its memory; None: unknown."""
        return memory_of(self.row)

    @property
    def loss(self) -> Check:
        return next(check for check in self.checks if check.kind == "loss")


def judged(rows: Sequence[Row], limits: Limits) -> list[Judged]:
    """The rows that have a result. `rows` are those of one model on one target."""
    done = [row for row in rows if row.status == "done"]
    return [Judged(row=row, checks=tuple(_checks(row, done, limits))) for row in done]


def _checks(row: Row, rows: Sequence[Row], limits: Limits) -> Iterator[Check]:
    reason = row.prediction_unavailable_reason or "no prediction" if row.emulated else "not measured"
    yield Check(
        kind="speed",
        limit=limits.min_fps or 0.0,
        value=speed_of(row),
        interval=speed_interval_of(row),
        unknown=reason,
    )
    if limits.max_memory is not None:
        planned = f"{row.runtime} does not state what it plans, and an emulator's memory says nothing"
        yield Check(
            kind="memory",
            limit=limits.max_memory,
            value=memory_of(row),
            unknown=planned if row.emulated else "not measured",
        )
    yield _loss(row, rows, limits)


def _loss(row: Row, rows: Sequence[Row], limits: Limits) -> Check:
    """What is lost against fp32 in the same runtime, else in another one."""
    limit = 1 - limits.min_agreement if row.accuracy_metric == "agreement" else limits.max_drop
    if row.policy == BASELINE:
        return Check(kind="loss", limit=limit, value=0.0, interval=(0.0, 0.0))
    change, ends = row.accuracy_change, row.accuracy_change_interval
    if change is None and (base := _fp32_elsewhere(row, rows)):
        change = (row.accuracy or 0.0) - (base.accuracy or 0.0)
        reach = accuracy_reach(row, base)
        ends = None if reach is None else (change - reach, change + reach)
    if change is None:
        reason = row.accuracy_change_interval_unavailable_reason or "no accuracy was evaluated"
        return Check(kind="loss", limit=limit, value=None, unknown=reason)
    if ends and ends[0] == ends[1]:  # no picture differs: nothing to draw from, which is no certainty
        ends = None
    return Check(kind="loss", limit=limit, value=0.0 - change, interval=ends and (-ends[1], -ends[0]))


def _fp32_elsewhere(row: Row, rows: Sequence[Row]) -> Row | None:
    if row.accuracy is None:
        return None
    found = [
        other
        for other in rows
        if other.policy == BASELINE
        and other.accuracy is not None
        and other.accuracy_metric == row.accuracy_metric
    ]
    return min(found, key=lambda other: other.runtime != "engine", default=None)
