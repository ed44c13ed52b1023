"""The boards of a sweep are closed together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from fake_boards import FakeBoard

from harness.sweep import preparation
from harness.sweep.machine_lock import Interrupted
from harness.sweep.preparation import Boards
from harness.sweep.store import Store
from harness.sweep.worker import Worker

NAMES = ("a", "b", "c")


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
