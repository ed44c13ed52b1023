"""Measures the cells of a sweep on its boards, one thread per board, and handles failing boards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness import console
from harness.errors import BoardBusyError, BoardRefusedError, BuildError, ConfigurationError, HarnessError
from harness.locks import Interrupted
from harness.measure.cell import Cell
from harness.store.errors import StoreError
from harness.store.store import Claim
from harness.sweep.board_activity import BoardStatus, State
from harness.sweep.fleet import Fleet
from harness.sweep.plan import Keyed
from harness.sweep.preparation import Boards
from harness.sweep.schedule import Schedule, Task
from harness.sweep.worker import POLL_SECONDS, Job, Worker

POWER_CYCLE_AFTER = 3  # consecutive failures of a board


@dataclass(frozen=True, kw_only=True)
class BoardService:
    """Serves the boards of a sweep. Several threads may call `serve`, each with its own board."""

    worker: Worker
    boards: Boards
    fleet: Fleet
    schedule: Schedule[Keyed]
    job_for: Callable[[Keyed, str], Job]  # measures a cell on a board
    cost: Callable[[Cell], float]
    advance: Callable[[Job], None]  # called for every cell that has ended

    def serve(self, board_status: BoardStatus) -> None:
        """Measures cells on a board until none is left or the board has failed too often."""
        with contextlib.suppress(Interrupted), console.telling(board_status.tell):
            while (task := self.schedule.take(board_status.name, self.worker.stop)) is not None:
                jobs = [
                    board_status.watched(self.job_for(keyed, board_status.name), self.cost(keyed[1]))
                    for keyed in task.items
                ]
                begun = False
                try:
                    board_status.enter(State.OPENING)
                    self.boards.get(board_status.name)
                    begun = True
                    board_status.enter(State.WAITING)
                    claims = self.worker.attempt_together(jobs)
                except StoreError:
                    raise
                except HarnessError as error:
                    if not self._try_again(board_status, task, error, begun=begun):
                        return
                else:
                    self._settle(board_status, task, jobs, claims)
                board_status.enter(State.IDLE)
            board_status.enter(State.FINISHED)

    def _settle(
        self, board_status: BoardStatus, task: Task[Keyed], jobs: Sequence[Job], claims: Sequence[Claim]
    ) -> None:
        for job, claim in zip(jobs, claims, strict=True):
            if claim is not Claim.BUSY:
                self.advance(job)
        if Claim.MINE in claims:
            self.schedule.works(board_status.name)
        task.items = [keyed for keyed, claim in zip(task.items, claims, strict=True) if claim is Claim.BUSY]
        if task.items:
            self.schedule.postpone(task, POLL_SECONDS)
        else:
            self.schedule.done(task, board_status.name)

    def _try_again(
        self, board_status: BoardStatus, task: Task[Keyed], error: HarnessError, *, begun: bool
    ) -> bool:
        """Waits until a failed board may be tried again. False if it is quarantined or the sweep has ended.

        Other boards may measure its cells meanwhile.
        """
        self.boards.drop(board_status.name)
        busy = isinstance(error, BoardBusyError)  # no cell is the cause, and a power cycle does not help
        lasting = isinstance(error, (BoardRefusedError, ConfigurationError, BuildError))
        pause = self.schedule.lost(task, board_status.name, error, begun=begun and not busy, lasting=lasting)
        if pause is None:
            console.warn(f"{board_status.name}: no longer used: {error}")
            board_status.enter(State.QUARANTINED, error.message)
            return False
        console.warn(f"{board_status.name}: retrying in {pause:g} s: {error}")
        board_status.enter(State.RETRYING, error.message, seconds=pause)
        if self.schedule.failures(board_status.name) == POWER_CYCLE_AFTER and not busy:
            self._power_cycle(board_status.name)
        return self.schedule.rest(board_status.name, pause, self.worker.stop)

    def _power_cycle(self, board: str) -> None:
        try:
            self.fleet.power_cycle(board)
        except HarnessError as error:
            console.warn(f"{board}: power cycle failed: {error}")
