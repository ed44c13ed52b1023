"""The boards of a sweep: how they are opened beside measurements, and closed together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from fake_boards import FakeBoard

from harness.errors import BoardUnreachableError
from harness.locks import Interrupted, measuring
from harness.store.store import Store
from harness.sweep import preparation
from harness.sweep.preparation import Boards
from harness.sweep.worker import Worker

NAMES = ("a", "b", "c")
SECONDS = 20.0  # that a step of a test may take


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "results") as store:
        yield Worker(store, store.begin_run(sweep="s", file="s.yaml", fresh=False))


def test_boards_are_closed_at_once(worker: Worker) -> None:
    together = threading.Barrier(len(NAMES))

    class Slow(FakeBoard):
        def __exit__(self, *_: object) -> None:
            together.wait(20)

    with Boards(worker, Slow) as boards:
        for name in NAMES:
            assert boards.get(name).name == name
    assert not together.broken
    with pytest.raises(Interrupted):
        boards.get("a")


def test_a_board_that_cannot_be_closed_keeps_none_of_the_others_open(worker: Worker) -> None:
    closed: list[str] = []

    class Failing(FakeBoard):
        def __exit__(self, *_: object) -> None:
            if self.name == "a":
                raise OSError("no route")
            closed.append(self.name)

    boards = Boards(worker, Failing)
    for name in NAMES:
        boards.get(name)
    with pytest.raises(OSError, match="no route"):
        boards.close()
    assert sorted(closed) == ["b", "c"]


def test_a_board_that_is_just_being_opened_is_closed_as_well(worker: Worker) -> None:
    begun, closed = threading.Event(), threading.Event()

    class Opening(FakeBoard):
        def __enter__(self) -> Self:
            begun.set()
            time.sleep(0.5)
            return self

        def __exit__(self, *_: object) -> None:
            closed.set()

    boards = Boards(worker, Opening)
    boards.open("a")
    assert begun.wait(20)
    boards.close()
    assert closed.is_set()


def test_nobody_waits_for_a_board_that_takes_long_to_open(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "OPENING_SECONDS", 0.1)
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Opening(FakeBoard):
        def __enter__(self) -> Self:
            begun.set()
            assert go_on.wait(60)
            return self

        def __exit__(self, *_: object) -> None:
            closed.set()

    boards = Boards(worker, Opening)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(boards.get, "a")
        assert begun.wait(20)
        boards.close(KeyboardInterrupt)
        with pytest.raises(Interrupted):
            waiting.result(20)
    go_on.set()
    assert closed.wait(20)  # late, and yet it is closed


def test_boards_hear_that_everything_was_cut_short(worker: Worker) -> None:
    told: list[object] = []

    class Told(FakeBoard):
        def __exit__(self, *cause: object) -> None:
            told.append(cause[0])

    boards = Boards(worker, Told)
    boards.get("a")
    with pytest.raises(KeyboardInterrupt), boards:
        raise KeyboardInterrupt
    assert told == [KeyboardInterrupt]


@contextlib.contextmanager
def measured_here() -> Iterator[None]:
    """Another harness measures this machine, which it has to get within some seconds."""
    late = threading.Event()
    timer = threading.Timer(SECONDS, late.set)
    timer.start()
    try:
        with measuring(late):
            yield
    finally:
        timer.cancel()


def test_a_wait_for_a_place_does_not_block_measurements_on_this_machine(worker: Worker) -> None:
    """The place is held by a sweep that measures this machine before it releases the place."""
    waiting, released = threading.Event(), threading.Event()

    class Held(FakeBoard):
        def __enter__(self) -> Self:
            waiting.set()
            if not released.wait(2 * SECONDS):
                raise BoardUnreachableError("the place is held by another harness")
            return self

    with Boards(worker, Held) as boards:
        boards.open("place")
        assert waiting.wait(SECONDS)
        with measured_here():
            released.set()
            assert boards.get("place").name == "place"  # also while this machine is measured


def test_an_emulated_board_is_opened_when_nothing_is_measured_here(worker: Worker) -> None:
    began = threading.Event()

    class Emulated(FakeBoard):
        emulated = True

        def __enter__(self) -> Self:
            began.set()
            return self

    with Boards(worker, Emulated) as boards:
        with measured_here():
            boards.open("pi4 (emulated)")
            assert not began.wait(0.5)
        assert boards.get("pi4 (emulated)")
        assert began.is_set()
