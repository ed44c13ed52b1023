"""The status of each board of a sweep.

One thread serves a board. Only this thread writes its status, each time by assigning a frozen value, so that
other threads can read it at any time without a lock.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.errors import BoardUnreachableError
from harness.locks import Interrupted
from harness.measure.result import CellOutcome, Outcome, Work
from harness.sweep.worker import Job

Left = Callable[[str], tuple[int, float]]  # as Backlog.left


class State(enum.StrEnum):
    """The states of a board."""

    IDLE = "idle"  # other boards may still return cells
    OPENING = "opening"
    WAITING = "waiting for its turn"  # something else is measured on it or on this machine
    MEASURING = "measuring"
    RETRYING = "retrying"
    QUARANTINED = "quarantined"
    FINISHED = "finished"


_OUT_OF_USE = (State.QUARANTINED, State.FINISHED)


@dataclass(frozen=True)
class Timings:
    """Sums over measured cells, for the regression line seconds = a + b * cost."""

    cells: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    cost_squared: float = 0.0
    cost_seconds: float = 0.0

    @staticmethod
    def of(cost: float, seconds: float) -> Timings:
        """Of one cell."""
        return Timings(1, cost, seconds, cost * cost, cost * seconds)

    def __add__(self, other: Timings) -> Timings:
        return Timings(
            self.cells + other.cells,
            self.cost + other.cost,
            self.seconds + other.seconds,
            self.cost_squared + other.cost_squared,
            self.cost_seconds + other.cost_seconds,
        )

    def predict(self, cells: int, cost: float) -> float | None:
        """Seconds that this many cells with this total cost will take; None: nothing was measured yet."""
        if not self.cells:
            return None
        mean_cost, mean_seconds = self.cost / self.cells, self.seconds / self.cells
        variance = self.cost_squared / self.cells - mean_cost**2
        slope = 0.0
        if variance > 1e-9 * mean_cost**2:  # otherwise the costs differ only by rounding
            slope = (self.cost_seconds / self.cells - mean_cost * mean_seconds) / variance
            slope = min(max(slope, 0.0), mean_seconds / mean_cost)  # no part of a cell takes negative time
        return cells * (mean_seconds - slope * mean_cost) + slope * cost


class Activity(NamedTuple):
    """The state of a board, and counts of its work so far."""

    since: float  # of time.monotonic
    state: State = State.IDLE
    what: str = ""  # the measured cell, or the reason why the board is not used
    detail: str = ""  # the progress
    until: float = 0.0  # the time of the next attempt, by the same clock
    done: int = 0
    failed: int = 0
    spent: float = 0.0  # seconds, by earlier turns of cells that have not ended
    timings: Timings = Timings()


class BoardStatus:
    """A board, or the evaluation of accuracy (which has no `target`), and its activity."""

    def __init__(self, name: str, target: str = "") -> None:
        self.name = name
        self.target = target
        self.activity = Activity(time.monotonic())

    def enter(self, state: State, what: str = "", *, seconds: float = 0.0) -> None:
        """Notes a new state, and if known, the seconds until it ends."""
        now = time.monotonic()
        self.activity = self.activity._replace(
            state=state, what=what, detail="", since=now, until=now + seconds
        )

    def tell(self, detail: str) -> None:
        """Notes the progress."""
        self.activity = self.activity._replace(detail=detail)

    def watched(self, job: Job, cost: float = 1.0) -> Job:
        """The same job, which also notes its begin, its turns and its end here."""

        def perform() -> Work:
            seconds = 0.0
            with contextlib.closing(job.perform()) as work:
                try:
                    while True:
                        began = time.monotonic()
                        self.enter(State.MEASURING, job.name)
                        try:
                            next(work)
                        except StopIteration as end:
                            outcome: Outcome = end.value
                            whole = seconds + time.monotonic() - began
                            self._count(outcome.status, cost, whole)
                            if isinstance(outcome, CellOutcome):
                                result = replace(outcome.result, wall_seconds=round(whole, 3))
                                outcome = replace(outcome, result=result)
                            return outcome
                        seconds += self._spend(time.monotonic() - began)
                        yield
                except (BoardUnreachableError, Interrupted):  # not the job's fault: not counted as failed
                    raise
                except Exception:
                    self._count("failed", cost, seconds + time.monotonic() - began)
                    raise
                finally:
                    self._spend(-seconds)

        return replace(job, perform=perform)

    def _spend(self, seconds: float) -> float:
        self.activity = self.activity._replace(spent=self.activity.spent + seconds)
        return seconds

    def _count(self, status: str, cost: float, seconds: float) -> None:
        found = self.activity
        self.activity = found._replace(
            done=found.done + (status == "done"),
            failed=found.failed + (status == "failed"),
            timings=found.timings + Timings.of(cost, seconds),
        )
        self.enter(State.IDLE)


class Backlog:
    """The unfinished cells of a sweep with targets and costs, by their keys. Threads may share it."""

    def __init__(self, cells: Mapping[str, tuple[str, float]]) -> None:
        self._lock = threading.Lock()
        self._cells = dict(cells)
        self._left: dict[str, tuple[int, float]] = {}
        for target, cost in cells.values():
            number, whole = self.left(target)
            self._left[target] = number + 1, whole + cost

    def end(self, key: str) -> None:
        """Notes that a cell has ended; other keys are ignored."""
        with self._lock:
            if key in self._cells:
                target, cost = self._cells.pop(key)
                number, whole = self.left(target)
                self._left[target] = number - 1, whole - cost

    def left(self, target: str) -> tuple[int, float]:
        """The number of unfinished cells of a target, and their total cost."""
        return self._left.get(target, (0, 0.0))


def seconds_left(board_statuses: Iterable[BoardStatus], cells: int, cost: float) -> float | None:
    """Seconds until the boards of a target have measured this many cells with this total cost, running ones
    included. None if they have measured nothing yet, or if no board is left."""
    activities = [board_status.activity for board_status in board_statuses]
    boards = sum(activity.state not in _OUT_OF_USE for activity in activities)
    whole = sum((activity.timings for activity in activities), Timings()).predict(cells, cost)
    if whole is None or not boards or not cells:
        return None
    now = time.monotonic()
    spent = sum(
        activity.spent + (now - activity.since if activity.state is State.MEASURING else 0.0)
        for activity in activities
    )
    return max(whole - spent, 0.0) / min(boards, cells)
