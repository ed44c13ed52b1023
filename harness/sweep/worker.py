"""Jobs that several sweeps may share: each is claimed, done once, and stored with its result."""

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
    alone: bool = False  # measures this machine: nothing else may load it
    board: str = ""  # measures this device: nothing else may run there
    # Held during each of its turns, as the device's own lock. That it cannot be had is the device's fault.
    turn: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


def at_once(perform: Callable[[], Outcome]) -> Callable[[], Work]:
    """Work without turns."""

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
        """Settles every job, or waits until another process that has claimed it does so.

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
        """Does a job, unless it is settled or another process has claimed it, and says which. Raises as
        `attempt_together` does."""
        return self.attempt_together([job])[0]

    def attempt_together(self, jobs: Sequence[Job]) -> list[Claim]:
        """Does jobs that need the same board, or all of them none, in turns: each until it yields, again and
        again, in rounds that another one begins each time. Those that are settled, or that another process
        has claimed, are left out; says which.

        Raises BoardUnreachableError where the board failed, which is not the jobs' fault, and Interrupted
        when asked to stop.
        """
        if self.stop.is_set():
            raise Interrupted
        claims = [Claim.SETTLED] * len(jobs)
        wanted = [(job.table, job.key) for job in jobs]
        settled = self.store.settled_together(wanted, self.run)
        missing = [place for place, ended in enumerate(settled) if not ended]
        if missing:
            # The lock first, then the claim: who waits for the lock does not keep a job from others.
            with self._alone(jobs[missing[0]]):
                got = self.store.claim_together([wanted[place] for place in missing], self.run)
                for place, claim in zip(missing, got, strict=True):
                    claims[place] = claim
                self._perform([jobs[place] for place in missing if claims[place] is Claim.MINE])
        return claims

    def give_up(self, job: Job, error: HarnessError) -> None:
        """Stores why a job was never done, unless another process does it or it has an earlier result."""
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

        The device before the machine: a device may be another harness's for an hour, in which this machine
        can be measured. Nobody waits for somebody who waits for him: all take a board's file, the device and
        the machine in this order, who measures the machine takes nothing else, and the others share it.
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
                        # What fails while everything is being stopped has most likely failed because of that.
                        raise Interrupted
                    self._keep(job, outcome)
                    del running[job.key]
                if running:
                    # Another one begins the next round: none always runs on a board that the same one heated.
                    first = next(iter(running))
                    running[first] = running.pop(first)
        except BoardUnreachableError:
            if self.stop.is_set():
                raise Interrupted from None
            raise
        finally:
            for _, work in running.values():
                work.close()
            # Claims that cannot be given up now count for nothing once this process has ended.
            with contextlib.suppress(StoreError) if self.stop.is_set() else contextlib.nullcontext():
                for job, _ in running.values():
                    self.store.release(job.key)

    def _keep(self, job: Job, outcome: Outcome) -> None:
        try:
            self._complete(job, outcome)
        except HarnessError:
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be stored is this result's fault alone
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
        """Goes on until the work yields (None), ends or fails. Raises BoardUnreachableError alone, which is
        not the work's fault."""
        try:
            next(work)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        except BoardUnreachableError:
            raise
        except Exception as error:  # noqa: BLE001 - one cell's fault must not cost a night's sweep
            if self.debug:
                console.log(traceback.format_exc())
            known = explained(error)
            reason = str(known or f"unexpected {type(error).__name__}: {error}")
            return Outcome(status="failed", error=printable_lines(reason))
        return None
