"""Shared work: every job is done once, failures are stored with their cause, interrupted jobs are not."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from cells_in_store import done

from harness import locks as machine_lock
from harness.errors import BoardFaultError, BoardUnreachableError, HarnessError
from harness.locks import Interrupted, loading, measuring, using
from harness.measure.result import CellOutcome, Outcome, Work
from harness.runtimes.base import LayerResult
from harness.signals import Ended
from harness.store.store import Claim, Run, Store
from harness.sweep.worker import Job, Worker, at_once

LAYER = LayerResult(
    index=0,
    type="convolutional",
    precision="fp32",
    executed="fp32",
    isa="neon",
    algorithm="gemm",
    ns=5,
    conversion_ns=0,
    bytes=6,
)


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Store(tmp_path / "results") as store:
        yield Worker(store, begin(store))


def begin(store: Store) -> Run:
    return store.begin_run(sweep="s", file="s.yaml", fresh=False)


def job(key: str, perform: object = lambda: Outcome(status="done"), **more: bool) -> Job:
    return Job(name=key, table="cells", key=key, perform=at_once(perform), **more)  # type: ignore[arg-type]


def fail(error: Exception) -> object:
    def perform() -> Outcome:
        raise error

    return perform


def test_all_jobs_are_done_and_told_of(worker: Worker) -> None:
    told: list[str] = []
    worker.work([job("a"), job("b", alone=True)], lambda done: told.append(done.key))
    assert told == ["a", "b"]
    assert all(worker.store.settled("cells", key, worker.run) for key in "ab")


def test_a_failure_is_kept_with_its_cause_and_the_rest_goes_on(worker: Worker) -> None:
    jobs = [
        job("a", fail(HarnessError("disk on fire", hint="Put it out."))),
        job("b", fail(ZeroDivisionError("0"))),
        job("c"),
    ]
    worker.work(jobs, lambda _: None)
    outcomes = [worker.store.cell(key) for key in "abc"]
    assert [(outcome.status, outcome.error) for outcome in outcomes if outcome] == [
        ("failed", "disk on fire\n  Put it out."),
        ("failed", "unexpected ZeroDivisionError: 0"),
        ("done", ""),
    ]


def test_a_failure_while_the_sweep_is_stopped_is_not_stored(worker: Worker) -> None:
    def perform() -> Outcome:
        worker.stop.set()
        raise HarnessError("connection closed")

    worker.work([job("a", perform), job("b")], lambda _: None)
    assert worker.store.cell("a") is None
    assert worker.store.cell("b") is None
    assert worker.store.claim("cells", "a", worker.run) is Claim.MINE  # the claim was given up


def test_a_claim_ends_when_the_job_is_broken_off(worker: Worker) -> None:
    with pytest.raises(KeyboardInterrupt):
        worker.work([job("a", fail(KeyboardInterrupt()))], lambda _: None)  # type: ignore[arg-type]
    assert worker.store.claim("cells", "a", worker.run) is Claim.MINE


def test_two_workers_share_and_wait_for_each_other(worker: Worker) -> None:
    started, go_on = threading.Event(), threading.Event()
    done_by: dict[str, str] = {}

    def slow() -> Outcome:
        started.set()
        assert go_on.wait(30)
        done_by["a"] = "first"
        return Outcome(status="done")

    def quick(key: str) -> object:
        def perform() -> Outcome:
            done_by[key] = "second"
            go_on.set()
            return Outcome(status="done")

        return perform

    with Store(worker.store.folder) as store:
        second = Worker(store, begin(store))
        thread = threading.Thread(target=worker.work, args=([job("a", slow), job("b")], lambda _: None))
        thread.start()
        assert started.wait(30)
        told: list[str] = []
        second.work([job("a", quick("a")), job("b", quick("b"))], lambda done: told.append(done.key))
        thread.join()
    assert done_by == {"a": "first", "b": "second"}
    assert told == ["b", "a"]


def test_jobs_of_one_board_take_turns(worker: Worker) -> None:
    said: list[str] = []

    def counting(name: str, rounds: int, end: Exception | None = None) -> Callable[[], Work]:
        def work() -> Work:
            for number in range(rounds):
                said.append(f"{name}{number}")
                yield
            if end:
                raise end
            return done(rounds=[rounds])

        return work

    def jobs(*works: Callable[[], Work]) -> list[Job]:
        return [replace(job(name), perform=work) for name, work in zip("abc", works, strict=True)]

    claims = worker.attempt_together(
        jobs(counting("a", 2), counting("b", 1, HarnessError("no")), counting("c", 3))
    )
    assert claims == [Claim.MINE] * 3
    assert said == ["a0", "b0", "c0", "c1", "a1", "c2"]  # b began the second round, and failed
    outcomes = [worker.store.cell(key) for key in "abc"]
    assert [outcome.status for outcome in outcomes if outcome] == ["done", "failed", "done"]
    assert worker.attempt_together(jobs(*[counting("x", 1)] * 3)) == [Claim.SETTLED] * 3


def test_every_job_has_each_place_in_a_round(worker: Worker) -> None:
    said: list[str] = []

    def naming(name: str) -> Callable[[], Work]:
        def work() -> Work:
            for _ in range(3):
                said.append(name)
                yield
            return Outcome(status="done")

        return work

    worker.attempt_together([replace(job(name), perform=naming(name)) for name in "abc"])
    assert "".join(said) == "abc" + "bca" + "cab"


def test_with_their_board_all_jobs_are_given_back_but_those_that_had_ended(worker: Worker) -> None:
    closed: list[str] = []

    def waiting(name: str, end: Exception | None = None) -> Callable[[], Work]:
        def work() -> Work:
            try:
                yield
                if end:
                    raise end
                yield
                raise AssertionError
            finally:
                closed.append(name)

        return work

    lost = BoardUnreachableError("gone")
    with pytest.raises(BoardUnreachableError):
        worker.attempt_together(
            [
                job("a"),
                replace(job("b"), perform=waiting("b")),
                replace(job("c"), perform=waiting("c", lost)),
            ]
        )
    assert sorted(closed) == ["b", "c"]
    assert worker.store.settled("cells", "a", worker.run)
    assert [worker.store.claim("cells", key, worker.run) for key in "bc"] == [Claim.MINE] * 2


def test_each_turn_of_a_job_holds_what_it_needs(worker: Worker) -> None:
    said: list[str] = []

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        said.append("taken")
        yield
        said.append("given back")

    def work() -> Work:
        said.append("first")
        yield
        said.append("second")
        raise HarnessError("the engine's own fault")

    assert worker.attempt(replace(job("a"), perform=work, turn=turn)) is Claim.MINE
    assert said == ["taken", "first", "given back", "taken", "second", "given back"]
    outcome = worker.store.cell("a")
    assert outcome
    assert (outcome.status, outcome.error) == ("failed", "the engine's own fault")


def test_a_wait_for_a_device_does_not_block_measurements_on_this_machine(worker: Worker) -> None:
    waits, go_on, measured = threading.Event(), threading.Event(), threading.Event()

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        waits.set()
        assert go_on.wait(30)
        yield

    def perform() -> Outcome:
        stop = threading.Event()
        stop.set()
        with pytest.raises(Interrupted), measuring(stop):  # a device is measured from here
            pass
        with pytest.raises(Interrupted), using("pi", stop):
            pass
        return Outcome(status="done")

    def measure() -> Outcome:
        measured.set()
        return Outcome(status="done")

    with ThreadPoolExecutor(1) as pool:
        on_device = pool.submit(worker.attempt, replace(job("a", perform), board="pi", turn=turn))
        assert waits.wait(30)
        worker.attempt(job("b", measure, alone=True))
        assert measured.is_set()
        go_on.set()
        assert on_device.result(30) is Claim.MINE
    outcome = worker.store.cell("a")
    assert outcome
    assert (outcome.status, outcome.error) == ("done", "")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_turn_that_cannot_be_had_or_ended_is_the_boards_fault(worker: Worker, when: str) -> None:
    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        if when == "before":
            raise HarnessError("no lock", hint="Free some space.")
        yield
        raise HarnessError("no lock", hint="Free some space.")

    with pytest.raises(BoardFaultError, match="no lock\n  Free some space"):
        worker.attempt(replace(job("a"), turn=turn))
    assert worker.store.cell("a") is None
    assert worker.store.claim("cells", "a", worker.run) is Claim.MINE  # the claim was given up


def test_a_measurement_has_the_machine_to_itself() -> None:
    inside: list[str] = []

    def load(name: str, both: threading.Barrier) -> None:
        with loading():
            inside.append(name)
            both.wait(30)  # two loads run at once
            inside.remove(name)

    def measure() -> None:
        with measuring():
            assert inside == []
            inside.append("measurement")
            time.sleep(0.1)
            assert inside == ["measurement"]
            inside.remove("measurement")

    errors: list[BaseException] = []

    def guarded(work: object, *arguments: object) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    both = threading.Barrier(2)
    threads = [guarded(measure), guarded(load, "one", both), guarded(load, "two", both), guarded(measure)]
    for thread in threads:
        thread.join(60)
    assert errors == []


def test_waiting_for_the_machine_ends_when_asked_to() -> None:
    stop = threading.Event()
    stop.set()
    with measuring(), pytest.raises(Interrupted), loading(stop):
        pass
    with loading(stop):  # free: nothing to wait for
        assert machine_lock.lock_file("machine").is_file()


def test_a_board_has_one_measurement_at_a_time_while_other_boards_go_on() -> None:
    stop = threading.Event()
    stop.set()
    with using("pi"):
        with pytest.raises(Interrupted), using("pi", stop):
            pass
        with using("jetson", stop), loading(stop):
            pass


@pytest.mark.parametrize("name", ["a/b", "../../elsewhere", "x" * 300, "it's $(touch executed)\n"])
def test_a_boards_lock_is_in_one_folder_whatever_it_is_called(name: str) -> None:
    folder = machine_lock.lock_file("machine").parent
    stop = threading.Event()
    stop.set()
    with using(name):
        with pytest.raises(Interrupted), using(name, stop):
            pass
        with using(f"{name}'", stop):
            assert all(path.is_file() for path in folder.iterdir())


def test_threads_that_load_this_machine_share_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    stopped = threading.Event()
    stopped.set()
    with loading():
        with loading():
            pass
        with pytest.raises(Interrupted):  # as the outer one still has it
            measuring(stopped).__enter__()
    with measuring(), pytest.raises(Interrupted):
        loading(stopped).__enter__()
    with measuring(stopped):
        pass


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (CellOutcome(status="done", layers=[LAYER, LAYER]), "UNIQUE constraint failed"),
        (CellOutcome(status="done", samples_ns=[1 << 63]), "OverflowError"),
        (done(fps=float("nan")), "not JSON compliant"),
        (done(fps=object()), "objects of type object is unsupported"),
        (CellOutcome(status="done", layers=[replace(LAYER, isa="\ud800")]), "surrogates not allowed"),
        (Outcome(status="failed", error="it says \ud800"), "surrogates not allowed"),
    ],
)
def test_an_outcome_that_cannot_be_stored_ends_only_its_job(
    worker: Worker, outcome: Outcome, said: str
) -> None:
    jobs = [job("a"), job("b", lambda: outcome), job("c")]
    assert worker.attempt_together(jobs) == [Claim.MINE] * 3
    kept = [worker.store.cell(key) for key in "abc"]
    assert [each.status for each in kept if each] == ["done", "failed", "done"]
    assert kept[1] is not None
    assert kept[1].error.startswith("implausible result, cannot be stored: ")
    assert said in kept[1].error
    assert worker.store.samples_ns("b") == []


def test_a_message_of_any_letters_is_kept(worker: Worker) -> None:
    worker.work([job("a", fail(HarnessError("it says \ud800\x1b[31m", hint="Look.")))], lambda _: None)
    kept = worker.store.cell("a")
    assert kept is not None
    assert kept.error == "it says \\ud800\\x1b[31m\n  Look."


def test_an_error_in_place_of_a_signals_end_does_not_hide_it(worker: Worker) -> None:
    def perform() -> Outcome:
        try:
            raise Ended(signal.SIGTERM)
        finally:
            os.close(-1)  # a clean-up that the signal had interrupted

    with pytest.raises(Ended):
        worker.work([job("a", perform), job("b")], lambda _: None)
    assert [worker.store.cell(key) for key in "ab"] == [None, None]
