"""Does jobs that several sweeps may share: claims each, does it once, and stores its result."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness import console
from harness.errors import BoardUnreachableError, HarnessError, explained
from harness.locks import Interrupted, loading, lock_file, measuring, using
from harness.measure.board_fault import boards_fault
from harness.measure.result import Outcome, Work
from harness.signals import end_behind
from harness.store.errors import StoreError
from harness.store.store import Claim, Run, Store, Table
from harness.text import printable, printable_lines

POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work for one result."""

    name: str
    table: Table
    key: str
    perform: Callable[[], Work]
    kind: str = ""  # of an evaluation
    alone: bool = False  # it measures this machine: nothing else may load it
    board: str = ""  # it measures this device: nothing else may run there
    # A lock for each of its turns, such as the device's own. A failure to get it counts as the device's
    # fault.
    turn: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


def at_once(perform: Callable[[], Outcome]) -> Callable[[], Work]:
    """Work in a single turn."""

    def work() -> Work:
        yield from ()
        return perform()

    return work


class Worker:
    """Does jobs; several threads may use it at once, each with jobs of its own."""

    def __init__(self, store: Store, run: Run, *, debug: bool = False) -> None:
        self.store = store
        self.run = run
        self.debug = debug
        self.stop = threading.Event()
        self._machine = lock_file("machine")

    def work(self, jobs: Iterable[Job], advance: Callable[[Job], None]) -> None:
        """Settles every job, or waits until the process that has claimed it settles it.

        `advance` is called with every settled job. Returns early when asked to stop.
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
        """Does a job, unless it is settled or another process has claimed it; returns which of the three was
        the case. Raises as `attempt_together` does."""
        return self.attempt_together([job])[0]

    def attempt_together(self, jobs: Sequence[Job]) -> list[Claim]:
        """Does jobs that need the same board, or jobs that need none. They take turns: each runs until it
        yields. Every round begins with another job. Skips jobs that are settled or claimed by another
        process; returns the claim of each job.

        Raises BoardUnreachableError if the board failed, and Interrupted when asked to stop.
        """
        if self.stop.is_set():
            raise Interrupted
        claims = [Claim.SETTLED] * len(jobs)
        wanted = [(job.table, job.key) for job in jobs]
        settled = self.store.settled_together(wanted, self.run)
        missing = [place for place, ended in enumerate(settled) if not ended]
        if missing:
            # The lock before the claim: a process that waits for the lock must not block jobs.
            with self._alone(jobs[missing[0]]):
                got = self.store.claim_together([wanted[place] for place in missing], self.run)
                for place, claim in zip(missing, got, strict=True):
                    claims[place] = claim
                self._perform([jobs[place] for place in missing if claims[place] is Claim.MINE])
        return claims

    def give_up(self, job: Job, error: HarnessError) -> None:
        """Stores the reason why a job was never done, unless another process does it or it has a result."""
        if self.store.status(job.table, job.key) == "done":
            return
        if self.store.claim(job.table, job.key, self.run) is Claim.MINE:
            self._keep(job, Outcome(status="failed", error=printable_lines(str(error))))

    def _alone(self, job: Job) -> contextlib.AbstractContextManager[None]:
        """The lock that jobs hold during all their turns."""
        if job.board:
            return using(job.board, self.stop, self._machine.parent)
        return (measuring if job.alone else loading)(self.stop)

    @contextlib.contextmanager
    def _turn(self, job: Job) -> Iterator[None]:
        """The locks of one turn of a job.

        The device comes before the machine: another harness may hold a device for an hour, in which this
        machine can be measured. There is no deadlock: all jobs lock a board's file, the device and the
        machine in this order, and jobs that measure the machine lock only the machine. The other jobs share
        the machine's lock.
        """
        with (
            boards_fault(),
            job.turn(),
            loading(self.stop, self._machine) if job.board else contextlib.nullcontext(),
        ):
            yield

    def _perform(self, jobs: Sequence[Job]) -> None:
        running = {job.key: (job, job.perform()) for job in jobs}
        try:
            while running:
                for job, work in list(running.values()):
                    if self.stop.is_set():
                        raise Interrupted
                    with self._turn(job), console.speaking_of(job.name):
                        outcome = self._advance(work)
                    if outcome is None:
                        continue
                    if self.stop.is_set() and outcome.status != "done":
                        # It most likely failed because the sweep is being stopped.
                        raise Interrupted
                    self._keep(job, outcome)
                    del running[job.key]
                if running:
                    # Another job begins the next round: no job should always follow the same one, which
                    # heats the board.
                    first = next(iter(running))
                    running[first] = running.pop(first)
        except BoardUnreachableError:
            if self.stop.is_set():
                raise Interrupted from None
            raise
        finally:
            for _, work in running.values():
                work.close()
            # Claims that cannot be released now become void when this process ends.
            with contextlib.suppress(StoreError) if self.stop.is_set() else contextlib.nullcontext():
                for job, _ in running.values():
                    self.store.release(job.key)

    def _keep(self, job: Job, outcome: Outcome) -> None:
        try:
            self._complete(job, outcome)
        except HarnessError:
            raise
        except Exception as error:  # noqa: BLE001 - one bad result must not end the sweep
            if signals_end := end_behind(error):
                raise signals_end from None
            if self.debug:
                console.log(traceback.format_exc())
            reason = f"implausible result, cannot be stored: {type(error).__name__}: {error}"
            outcome = Outcome(status="failed", error=printable(reason))
            self._complete(job, outcome)
        if outcome.status == "failed":
            console.warn(f"{job.name}: {outcome.error}")

    def _complete(self, job: Job, outcome: Outcome) -> None:
        if job.table == "cells":
            self.store.complete_cell(self.run, job.key, outcome)
        else:
            self.store.complete_evaluation(self.run, job.key, job.kind, outcome)

    def _advance(self, work: Work) -> Outcome | None:
        """Continues the work until it yields (returns None), ends or fails. A failure is an Outcome, except
        BoardUnreachableError and a signal's end, which pass."""
        try:
            next(work)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        except BoardUnreachableError:
            raise
        except Exception as error:  # noqa: BLE001 - one failed cell must not end the sweep
            if signals_end := end_behind(error):
                raise signals_end from None
            if self.debug:
                console.log(traceback.format_exc())
            known = explained(error)
            reason = str(known or f"unexpected {type(error).__name__}: {error}")
            return Outcome(status="failed", error=printable_lines(reason))
        return None
