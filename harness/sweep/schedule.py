"""Decides which board measures which cell next: the longest first, one at a time on a board.

A cell may run on any board of its target. A board that fails returns its cell and is tried again after a
pause, each time a longer one. If it keeps failing, it is quarantined and the other boards get its cells. A
board takes cells that it has not failed with first and leaves the others to other boards. A cell is given up
if too many boards vanished while they measured it, because it may crash them, or if all remaining boards fail
with it. Cells that take turns on a board are one task.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from harness.errors import BoardFaultError, HarnessError
from harness.locks import Interrupted

Item = TypeVar("Item")


# Seconds between attempts to reach a board, which is quarantined after the last. A Raspberry Pi takes half a
# minute to start.
PAUSES = (2.0, 5.0, 15.0, 30.0, 60.0)
LOSSES = 3  # a cell is given up after this many vanished boards, or failures on all remaining boards


@dataclass(eq=False)
class Task(Generic[Item]):
    """Cells that take turns on one board."""

    items: Sequence[Item]
    target: str
    cost: float  # in the same unit for all tasks; the most expensive task is taken first
    losses: Counter[str] = field(default_factory=Counter)  # number of failures during the task, by board
    vanished: set[str] = field(default_factory=set)  # boards that became unreachable: a cell may be the cause

    def single(self) -> list[Task[Item]]:
        """One task per cell."""
        cost = self.cost / len(self.items)
        return [
            Task([item], self.target, cost, self.losses.copy(), self.vanished.copy()) for item in self.items
        ]

    def is_hopeless(self, boards: Iterable[str]) -> bool:
        """Whether to give up the task. `boards`: the remaining boards of its target."""
        losses = [self.losses[board] for board in boards]
        return len(self.vanished) >= LOSSES or (all(losses) and sum(losses) >= LOSSES)


@dataclass
class _Queue(Generic[Item]):
    """The tasks of one target. `left` counts those that have not ended, including those on a board."""

    ready: list[tuple[float, int, Task[Item]]] = field(default_factory=list)
    later: list[tuple[float, int, Task[Item]]] = field(default_factory=list)
    boards: set[str] = field(default_factory=set)  # without those in quarantine
    left: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def pop(self, board: str) -> Task[Item]:
        """The longest ready task that the board has not failed with; without one, the longest of all."""
        passed = []
        while self.ready and board in self.ready[0][2].losses:
            passed.append(heapq.heappop(self.ready))
        found = heapq.heappop(self.ready) if self.ready else passed.pop(0)
        for entry in passed:
            heapq.heappush(self.ready, entry)
        return found[2]


class Schedule(Generic[Item]):
    """The tasks of a sweep and their boards. Each board has its own thread, which calls the methods.

    `boards` maps the name of each board to its target. `pauses` maps it to the seconds between attempts to
    reach the board; the default is PAUSES. `abandon` is called with every task that no board will measure any
    more, and with the reason.
    """

    def __init__(
        self,
        tasks: Iterable[Task[Item]],
        boards: Mapping[str, str],
        abandon: Callable[[Task[Item], HarnessError], None],
        pauses: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self._pauses = dict(pauses or {})
        self._abandon = abandon
        self._boards = dict(boards)
        self._failures: dict[str, int] = {}  # consecutive failures of each board
        self._numbers = itertools.count()  # keeps tasks of the same length in their order
        self._queues: dict[str, _Queue[Item]] = {}
        for board, target in boards.items():
            self._queues.setdefault(target, _Queue()).boards.add(board)
        for task in tasks:
            queue = self._queues[task.target]
            queue.left += 1
            queue.ready.append((-task.cost, next(self._numbers), task))
        for queue in self._queues.values():
            heapq.heapify(queue.ready)

    def take(self, board: str, stop: threading.Event) -> Task[Item] | None:
        """The next task for a board; waits while other boards may return theirs.

        None if no tasks are left. Raises Interrupted when asked to stop.
        """
        queue = self._queues[self._boards[board]]
        with queue.changed:
            while queue.left:
                if stop.is_set():
                    raise Interrupted
                now = time.monotonic()
                while queue.later and queue.later[0][0] <= now:
                    _, number, task = heapq.heappop(queue.later)
                    heapq.heappush(queue.ready, (-task.cost, number, task))
                if queue.ready:
                    return queue.pop(board)
                # With a time-out: stopping the sweep does not wake a waiting board.
                due = queue.later[0][0] - now if queue.later else 0.5
                queue.changed.wait(min(max(due, 0.01), 0.5))
        return None

    def rest(self, board: str, seconds: float, stop: threading.Event) -> bool:
        """Waits before a board is tried again, as long as its target has tasks. False when asked to stop."""
        queue = self._queues[self._boards[board]]
        until = time.monotonic() + seconds
        with queue.changed:
            while queue.left and not stop.is_set() and (left := until - time.monotonic()) > 0:
                queue.changed.wait(min(left, 0.5))
        return not stop.is_set()

    def done(self, task: Task[Item], board: str) -> None:
        """Notes that a task has ended and that its board works."""
        self.works(board)
        self._end(task)

    def works(self, board: str) -> None:
        """Notes that a board has measured something, which resets its failures."""
        self._failures.pop(board, None)

    def failures(self, board: str) -> int:
        """Consecutive failures of a board since it last measured something."""
        return self._failures.get(board, 0)

    def postpone(self, task: Task[Item], seconds: float) -> None:
        """Returns a task that another process has claimed, to be tried again after `seconds`."""
        queue = self._queues[task.target]
        with queue.changed:
            heapq.heappush(queue.later, (time.monotonic() + seconds, next(self._numbers), task))

    def lost(
        self, task: Task[Item], board: str, error: HarnessError, *, begun: bool, lasting: bool = False
    ) -> float | None:
        """Notes that a board failed, and returns its task. `begun`: it failed while it worked on the task.
        `lasting`: trying again is useless. If the board vanished, one of the task's cells may be the cause;
        each cell becomes a task of its own.

        Returns the seconds after which to try the board again, or None if it is quarantined.
        """
        failures = self._failures[board] = self._failures.get(board, 0) + 1
        queue = self._queues[task.target]
        gone = begun and not isinstance(error, BoardFaultError)
        if begun:
            task.losses[board] += 1
        if gone:
            task.vanished.add(board)
        with queue.changed:
            hopeless = begun and task.is_hopeless(queue.boards)
            if not hopeless:
                parts = task.single() if gone and len(task.items) > 1 else [task]
                queue.left += len(parts) - 1
                for part in parts:
                    self.postpone(part, 0.0)
        if hopeless:
            times = task.losses.total()
            self._abandon(task, HarnessError(f"its board failed {times} times; last error: {error}"))
            self._end(task)
        pauses = self._pauses.get(board, PAUSES)
        if failures <= len(pauses) and not lasting:
            with self._queues[task.target].changed:
                self._queues[task.target].changed.notify()
            return pauses[failures - 1]
        self._quarantine(board, error)
        return None

    def _quarantine(self, board: str, error: HarnessError) -> None:
        queue = self._queues[self._boards[board]]
        with queue.changed:
            queue.boards.remove(board)
            given_up = [] if queue.boards else [entry[2] for entry in [*queue.ready, *queue.later]]
            if given_up:
                queue.ready.clear()
                queue.later.clear()
            queue.left -= len(given_up)
            queue.changed.notify_all()
        for task in given_up:
            self._abandon(task, error)

    def _end(self, task: Task[Item]) -> None:
        queue = self._queues[task.target]
        with queue.changed:
            queue.left -= 1
            if not queue.left:
                queue.changed.notify_all()
