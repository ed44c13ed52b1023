"""Boards among which some are faulty: the others do all cells, and what none can do fails with its cause."""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
from fake_boards import FakeBoard
from networks import write_sweep

from harness.config.sweep_file import read_sweep
from harness.errors import BoardBusyError, BoardFaultError, BoardUnreachableError, HarnessError
from harness.measure.cell import Cell
from harness.measure.result import Outcome, Work
from harness.store.store import Claim, Store
from harness.sweep.board_activity import BoardStatus, State
from harness.sweep.board_service import BoardService
from harness.sweep.fleet import Fleet
from harness.sweep.plan import Keyed, cells
from harness.sweep.preparation import Boards
from harness.sweep.schedule import LOSSES, Schedule, Task
from harness.sweep.worker import Job, Worker

FULL = "full: not enough free space: 60 MB are needed, 1 MB is free"
Perform = Callable[[str, str], Outcome]  # measures a cell on a board


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    text = "models: [{name: net, cfg: net.cfg, weights: random}]\npolicies: [fp32]\ntargets: [pi4]\n"
    return cells(read_sweep(write_sweep(tmp_path, text)), lambda _: False)[0]


class Service:
    """Boards that measure cells, each known by its key, in tasks of some."""

    def __init__(self, store: Store, cell: Cell, perform: Perform) -> None:
        self.store = store
        self.cell = cell
        self.perform = perform
        self.ran: Counter[str] = Counter()
        self.switched: list[str] = []
        self.worker = Worker(store, store.begin_run(sweep="s", file="s.yaml", fresh=False))

    def run(
        self, boards: Sequence[str], numbers: int, together: int = 1, pauses: Sequence[float] = (0.0,) * 5
    ) -> dict[str, BoardStatus]:
        keys = [f"c{number}" for number in range(numbers)]
        tasks = [
            Task[Keyed]([(key, self.cell) for key in keys[first : first + together]], "pi4", 1.0)
            for first in range(0, numbers, together)
        ]
        targets = dict.fromkeys(boards, "pi4")
        service = BoardService(
            worker=self.worker,
            boards=Boards(self.worker, FakeBoard),
            fleet=cast("Fleet", self),
            schedule=Schedule(tasks, targets, self._abandon, dict.fromkeys(boards, pauses)),
            job_for=self._job,
            cost=lambda _: 1.0,
            advance=lambda _: None,
        )
        board_statuses = {board: BoardStatus(board, "pi4") for board in boards}
        threads = [
            threading.Thread(target=service.serve, args=[board_status])
            for board_status in board_statuses.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        return board_statuses

    def power_cycle(self, board: str) -> None:
        self.switched.append(board)

    def outcomes(self, numbers: int) -> list[tuple[str, str]]:
        found = [self.store.cell(f"c{number}") for number in range(numbers)]
        return [(outcome.status, outcome.error) for outcome in found if outcome]

    def _abandon(self, task: Task[Keyed], error: HarnessError) -> None:
        for keyed in task.items:
            self.worker.give_up(self._job(keyed, ""), error)

    def _job(self, keyed: Keyed, board: str) -> Job:
        def perform() -> Work:
            self.ran[board] += 1
            yield
            return self.perform(board, keyed[0])

        return Job(name=keyed[0], table="cells", key=keyed[0], perform=perform, board=board)


@pytest.fixture
def service(tmp_path: Path, cell: Cell) -> Iterator[Callable[[Perform], Service]]:
    with Store(tmp_path / "results") as store:
        yield lambda perform: Service(store, cell, perform)


def failing(error: HarnessError, *boards: str, cells: str = "") -> Perform:
    def perform(board: str, key: str) -> Outcome:
        if board in boards and (not cells or key == cells):
            raise error
        return Outcome(status="done")

    return perform


def full_on(*boards: str, cells: str = "") -> Perform:
    return failing(BoardFaultError(FULL), *boards, cells=cells)


@pytest.mark.parametrize("together", [1, 3])
def test_a_faulty_board_swallows_no_cells(service: Callable[[Perform], Service], together: int) -> None:
    found = service(full_on("full"))
    board_statuses = found.run(("one", "full", "two"), 30, together)
    assert found.outcomes(30) == [("done", "")] * 30
    assert found.ran["full"] <= 6 * together  # at first, and after each pause
    assert board_statuses["full"].activity.failed == 0
    assert found.ran["one"] + found.ran["two"] == 30


@pytest.mark.parametrize("together", [1, 3])
def test_with_one_board_that_is_always_full_all_cells_say_so(
    service: Callable[[Perform], Service], together: int
) -> None:
    found = service(full_on("full"))
    board_statuses = found.run(["full"], 30, together)
    ends = found.outcomes(30)
    assert len(ends) == 30
    assert all(status == "failed" and error.endswith(FULL) for status, error in ends)
    assert found.ran["full"] <= 6 * together
    assert found.switched == ["full"]
    assert board_statuses["full"].activity.state is State.QUARANTINED
    assert board_statuses["full"].activity.what == FULL


def test_a_cell_that_fits_on_no_board_fails_alone(service: Callable[[Perform], Service]) -> None:
    found = service(full_on("one", "two", cells="c4"))
    board_statuses = found.run(("one", "two"), 10, pauses=(0.0,) * 1000)
    ends = found.outcomes(10)
    status, error = ends.pop(4)
    assert status == "failed"
    assert re.fullmatch(rf"its board failed \d+ times; last error: {FULL}", error)
    assert ends == [("done", "")] * 9
    assert {board_status.activity.state for board_status in board_statuses.values()} == {State.FINISHED}


def test_a_failure_of_the_engine_is_a_failure_of_the_cell(service: Callable[[Perform], Service]) -> None:
    def perform(board: str, key: str) -> Outcome:
        raise HarnessError(f"mpe bench on {board}: ended by SIGKILL")

    found = service(perform)
    board_statuses = found.run(("one", "two"), 10)
    ends = found.outcomes(10)
    assert len(ends) == 10
    assert all(status == "failed" and "ended by SIGKILL" in error for status, error in ends)
    assert sum(found.ran.values()) == 10
    assert {board_status.activity.state for board_status in board_statuses.values()} == {State.FINISHED}


def test_a_sweep_ends_without_waiting_for_a_long_retry(service: Callable[[Perform], Service]) -> None:
    found = service(full_on("full"))
    board_statuses = found.run(("one", "full"), 10, pauses=(600.0,))
    assert found.outcomes(10) == [("done", "")] * 10
    assert {board_status.activity.state for board_status in board_statuses.values()} == {State.FINISHED}


def test_cells_of_a_board_that_another_harness_keeps_go_to_others(
    service: Callable[[Perform], Service],
) -> None:
    found = service(failing(BoardBusyError("busy: somebody has it"), "busy"))
    found.run(("busy", "free"), 5)
    assert found.outcomes(5) == [("done", "")] * 5


def test_a_board_that_stays_busy_is_left_out_and_neither_it_nor_its_cells_are_to_blame(
    service: Callable[[Perform], Service],
) -> None:
    found = service(failing(BoardBusyError("busy: somebody has it", hint="Wait."), "busy"))
    board_statuses = found.run(["busy"], 1, pauses=(0.0,) * LOSSES)
    assert found.outcomes(1) == [("failed", "busy: somebody has it\n  Wait.")]
    assert board_statuses["busy"].activity.state is State.QUARANTINED
    assert not found.switched


def test_cells_of_another_harness_do_not_reset_the_failures_of_a_board(
    service: Callable[[Perform], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its failures a board is offered cells that another process has claimed meanwhile."""
    monkeypatch.setattr("harness.sweep.board_service.POLL_SECONDS", 0.0)
    found = service(failing(BoardUnreachableError("gone"), "broken"))
    attempt, turns = found.worker.attempt_together, itertools.count()

    def claimed_every_other_time(jobs: Sequence[Job]) -> list[Claim]:
        return [Claim.BUSY] * len(jobs) if next(turns) % 2 else attempt(jobs)

    monkeypatch.setattr(found.worker, "attempt_together", claimed_every_other_time)
    board_statuses = found.run(["broken"], 5, pauses=(0.0,) * 4)
    assert board_statuses["broken"].activity.state is State.QUARANTINED
    assert found.switched == ["broken"]


def test_a_board_that_goes_on_failing_is_switched_off_and_on(service: Callable[[Perform], Service]) -> None:
    found = service(failing(BoardUnreachableError("gone"), "broken"))
    found.run(["broken"], 2)
    assert found.switched == ["broken"]
    assert [status for status, _ in found.outcomes(2)] == ["failed"] * 2
