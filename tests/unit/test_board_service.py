"""Boards that measure a sweep's cells: what a board's failure comes to, for it and for its cells."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_boards import FakeBoard

from harness.errors import BoardBusyError, BoardUnreachableError, HarnessError
from harness.sweep.board_activity import Lane, State
from harness.sweep.board_service import BoardService, Keyed
from harness.sweep.fleet import Fleet
from harness.sweep.preparation import Boards
from harness.sweep.schedule import LOSSES, Schedule, Task
from harness.sweep.store import Outcome, Store
from harness.sweep.worker import Job, Worker, at_once

ATTEMPTS = 4


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "results") as store:
        yield Worker(store, store.begin_run(sweep="s", file="s.yaml", fresh=False))


class CountingFleet(Fleet):
    """Counts how often a board's power is switched off and on."""

    def __init__(self) -> None:
        super().__init__()
        self.cycles: Counter[str] = Counter()

    def power_cycle(self, board: str) -> None:
        self.cycles[board] += 1


class Service:
    """Boards of one target, of which some fail with an error whatever they are to measure."""

    def __init__(self, worker: Worker, cells: int, failing: dict[str, HarnessError], *boards: str) -> None:
        self.fleet = CountingFleet()
        self.measured: Counter[str] = Counter()
        self.given_up: dict[str, str] = {}
        self.failed = threading.Event()  # the first time
        self.lanes = [Lane(name, "pi4") for name in (*failing, *boards)]

        def job_for(keyed: Keyed, board: str) -> Job:
            def perform() -> Outcome:
                if error := failing.get(board):
                    self.failed.set()
                    raise error
                self.failed.wait(20)
                self.measured[board] += 1
                return Outcome(status="done")

            return Job(name=keyed[0], table="cells", key=keyed[0], perform=at_once(perform))

        def abandon(task: Task[Keyed], error: HarnessError) -> None:
            self.given_up |= {key: str(error) for key, _ in task.items}

        names = {lane.name: "pi4" for lane in self.lanes}
        pauses = dict.fromkeys(names, [0.0] * (ATTEMPTS - 1))
        tasks: list[Task[Keyed]] = [Task([(str(n), None)], "pi4", 1.0) for n in range(cells)]  # type: ignore[list-item]
        with Boards(worker, FakeBoard) as opened:
            service = BoardService(
                worker=worker,
                boards=opened,
                fleet=self.fleet,
                schedule=Schedule(tasks, names, abandon, pauses),
                job_for=job_for,
                cost=lambda _: 1.0,
                advance=lambda _: None,
            )
            threads = [threading.Thread(target=service.serve, args=(lane,)) for lane in self.lanes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def test_cells_of_a_board_that_another_harness_keeps_go_to_others(worker: Worker) -> None:
    service = Service(worker, 5, {"busy": BoardBusyError("busy: somebody has it")}, "free")
    assert service.measured == {"free": 5}
    assert not service.given_up


def test_a_board_that_stays_busy_is_left_out_and_neither_it_nor_its_cells_are_to_blame(
    worker: Worker,
) -> None:
    assert ATTEMPTS > LOSSES
    service = Service(worker, 1, {"busy": BoardBusyError("busy: somebody has it", cure="Wait.")})
    assert service.given_up == {"0": "busy: somebody has it\n  Wait."}
    assert service.lanes[0].activity.state is State.QUARANTINED
    assert not service.fleet.cycles


def test_a_board_that_goes_on_failing_is_switched_off_and_on(worker: Worker) -> None:
    service = Service(worker, 2, {"broken": BoardUnreachableError("gone")})
    assert service.fleet.cycles == {"broken": 1}
    assert set(service.given_up) == {"0", "1"}
