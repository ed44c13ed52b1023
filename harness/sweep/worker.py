"""Pieces of work that several sweeps may share: each is claimed, done once, and written with its result."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from harness import console
from harness.errors import BoardUnreachableError, HarnessError
from harness.sweep.machine_lock import Interrupted, loading, measuring, using
from harness.sweep.store import Claim, Outcome, Run, Store, Table

POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Job:
    """One result to be had."""

    name: str
    table: Table
    key: str
    perform: Callable[[], Outcome]
    kind: str = ""  # of an evaluation
    alone: bool = False  # measures this machine: nothing else may load it
    board: str = ""  # measures this device: nothing else may run there


class Worker:
    """Does jobs; several threads may use it at once, each with jobs of its own."""

    def __init__(self, store: Store, run: Run, *, debug: bool = False) -> None:
        self.store = store
        self.run = run
        self.debug = debug
        self.stop = threading.Event()

    def work(self, jobs: Iterable[Job], advance: Callable[[Job], None]) -> None:
        """Sees to it that every job is settled, by this process or by another that has claimed it.

        `advance` is told of every job that is. Returns early when asked to stop.
        """
        waiting = list(jobs)
        while waiting:
            busy: list[Job] = []
            for job in waiting:
                try:
                    claim = self.attempt(job)
                except Interrupted:
                    return
                if claim is Claim.BUSY:
                    busy.append(job)
                else:
                    advance(job)
            if len(busy) == len(waiting) and self.stop.wait(POLL_SECONDS):
                return
            waiting = busy

    def attempt(self, job: Job) -> Claim:
        """Does a job, unless it is settled or another process has claimed it, and says which.

        Raises BoardUnreachableError where the job's board failed, which is not the job's fault, and
        Interrupted when asked to stop.
        """
        if self.stop.is_set():
            raise Interrupted
        if self.store.settled(job.table, job.key, self.run):
            return Claim.SETTLED
        # The machine first, then the claim: who waits for the machine does not keep a job from others.
        with self._quiet(job):
            claim = self.store.claim(job.table, job.key, self.run)
            if claim is Claim.MINE:
                self._perform(job)
        return claim

    def give_up(self, job: Job, error: HarnessError) -> None:
        """Keeps why a job was never done, unless another process does it or an earlier result stands."""
        earlier = self.store.outcome(job.table, job.key)
        if earlier is not None and earlier.status == "done":
            return
        if self.store.claim(job.table, job.key, self.run) is Claim.MINE:
            self._keep(job, Outcome(status="failed", error=str(error)))

    @contextlib.contextmanager
    def _quiet(self, job: Job) -> Iterator[None]:
        with (measuring if job.alone else loading)(self.stop):
            if job.board:
                with using(job.board, self.stop):
                    yield
            else:
                yield

    def _perform(self, job: Job) -> None:
        try:
            outcome = self._outcome(job)
        except BoardUnreachableError:
            self.store.release(job.key)
            if self.stop.is_set():
                raise Interrupted from None
            raise
        except BaseException:
            self.store.release(job.key)
            raise
        if self.stop.is_set() and outcome.status != "done":
            # What fails while everything is being stopped has most likely failed because of that.
            self.store.release(job.key)
            raise Interrupted
        self._keep(job, outcome)

    def _keep(self, job: Job, outcome: Outcome) -> None:
        if job.table == "cells":
            self.store.complete_cell(self.run, job.key, outcome)
        else:
            self.store.complete_evaluation(self.run, job.key, job.kind, outcome)
        if outcome.status == "failed":
            console.warn(f"{job.name}: {outcome.error}")

    def _outcome(self, job: Job) -> Outcome:
        try:
            return job.perform()
        except BoardUnreachableError:
            raise
        except HarnessError as error:
            if self.debug:
                console.log(traceback.format_exc())
            return Outcome(status="failed", error=str(error))
        except Exception as error:  # noqa: BLE001 - one cell's fault must not cost a night's sweep
            if self.debug:
                console.log(traceback.format_exc())
            return Outcome(status="failed", error=f"unexpected {type(error).__name__}: {error}")
