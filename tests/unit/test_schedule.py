"""Which board gets which cell: the longest first, none twice, none lost with a board."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BoardFaultError, BoardUnreachableError, HarnessError
from harness.locks import Interrupted
from harness.sweep.schedule import Schedule, Task

DEAD = BoardUnreachableError("dead")
FULL = BoardFaultError("full")


class Sweep:
    """A schedule of numbered tasks, and the abandoned ones."""

    def __init__(
        self,
        costs: dict[str, list[float]],
        boards: dict[str, str],
        pauses: Sequence[float] = (0.0, 0.0),
        together: int = 1,
    ) -> None:
        self.given_up: dict[int, str] = {}
        self.stop = threading.Event()
        numbers = itertools.count()
        self.tasks = [
            Task([next(numbers) for _ in row[first : first + together]], target, row[first])
            for target, row in costs.items()
            for first in range(0, len(row), together)
        ]
        self.schedule = Schedule(self.tasks, boards, self.abandon, dict.fromkeys(boards, pauses))

    def abandon(self, task: Task[int], error: HarnessError) -> None:
        for number in task.items:
            assert number not in self.given_up
            self.given_up[number] = str(error)

    def take(self, board: str) -> Task[int]:
        task = self.schedule.take(board, self.stop)
        assert task is not None
        return task

    def is_over(self, board: str) -> bool:
        return self.schedule.take(board, self.stop) is None


def test_the_longest_come_first_and_equal_ones_in_their_order() -> None:
    sweep = Sweep({"pi4": [1.0, 3.0, 2.0, 3.0]}, {"a": "pi4"})
    taken: list[int] = []
    for _ in range(4):
        task = sweep.take("a")
        taken += task.items
        sweep.schedule.done(task, "a")
    assert taken == [1, 3, 2, 0]
    assert sweep.is_over("a")


def test_boards_of_a_target_share_its_cells_and_no_others() -> None:
    sweep = Sweep({"pi4": [1.0, 1.0], "pi5": [5.0]}, {"a": "pi4", "b": "pi4", "c": "pi5"})
    assert sweep.take("a").items == [0]
    assert sweep.take("b").items == [1]
    assert sweep.take("c").items == [2]


def test_a_board_waits_for_what_another_may_give_back() -> None:
    sweep = Sweep({"pi4": [1.0]}, {"a": "pi4", "b": "pi4"})
    task = sweep.take("a")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(sweep.take, "b")
        time.sleep(0.05)
        assert not other.done()
        sweep.schedule.lost(task, "a", DEAD, begun=True)
        assert other.result(timeout=10) is task
    sweep.schedule.done(task, "b")
    assert sweep.is_over("a")


def test_a_board_is_tried_again_after_longer_and_longer_pauses_then_quarantined() -> None:
    sweep = Sweep({"pi4": [1.0]}, {"a": "pi4", "b": "pi4"}, (1.0, 4.0))
    pauses = [sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=False) for _ in range(3)]
    assert pauses == [1.0, 4.0, None]
    assert not sweep.given_up
    assert sweep.take("b").items == [0]


def test_a_success_is_a_new_beginning() -> None:
    sweep = Sweep({"pi4": [1.0, 1.0]}, {"a": "pi4"}, (1.0,))
    task = sweep.take("a")
    assert sweep.schedule.lost(task, "a", DEAD, begun=True) == 1.0
    sweep.schedule.done(sweep.take("a"), "a")
    assert sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=True) == 1.0


def test_a_lasting_failure_quarantines_a_board_at_once() -> None:
    sweep = Sweep({"pi4": [1.0]}, {"a": "pi4", "b": "pi4"})
    assert sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=False, lasting=True) is None
    assert sweep.take("b").items == [0]


def test_with_the_last_board_of_a_target_its_cells_are_given_up_with_the_cause() -> None:
    sweep = Sweep({"pi4": [1.0, 1.0], "pi5": [1.0]}, {"a": "pi4", "b": "pi5"}, ())
    sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=False)
    assert sweep.given_up == {0: "dead", 1: "dead"}
    assert sweep.is_over("a")
    assert sweep.take("b").items == [2]


def test_a_cell_that_boards_are_lost_with_is_given_up() -> None:
    sweep = Sweep({"pi4": [9.0, 1.0]}, {"a": "pi4"}, (0.0,) * 9)
    sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=True)
    sweep.schedule.done(sweep.take("a"), "a")  # the other one, with which nothing went wrong
    for _ in range(2):
        assert not sweep.given_up
        sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=True)
    assert sweep.given_up == {0: "its board failed 3 times; last error: dead"}
    assert sweep.is_over("a")


def test_a_board_that_goes_on_vanishing_takes_no_cell_with_it() -> None:
    sweep = Sweep({"pi4": [1.0]}, dict.fromkeys("abcd", "pi4"), (0.0,) * 4)
    while sweep.schedule.lost(sweep.take("a"), "a", DEAD, begun=True) is not None:
        pass
    for board in "bc":
        assert not sweep.given_up
        sweep.schedule.lost(sweep.take(board), board, DEAD, begun=True)
    assert sweep.given_up == {0: "its board failed 7 times; last error: dead"}  # d is spared


def test_a_board_takes_cells_that_it_has_not_failed_with_first() -> None:
    sweep = Sweep({"pi4": [9.0, 5.0, 1.0]}, {"a": "pi4", "b": "pi4"}, (0.0,) * 9)
    first, second = sweep.take("a"), sweep.take("b")
    sweep.schedule.lost(first, "a", FULL, begun=True)
    assert sweep.take("a").items == [2]
    sweep.schedule.lost(second, "b", FULL, begun=True)
    assert sweep.take("b") is first
    assert sweep.take("a") is second
    sweep.schedule.lost(second, "a", FULL, begun=True)
    assert sweep.take("a") is second  # there is nothing else


def test_a_faulty_board_spoils_no_cell_that_another_may_do() -> None:
    sweep = Sweep({"pi4": [9.0, 9.0]}, {"a": "pi4", "b": "pi4"}, (0.0,) * 4, together=2)
    pauses = []
    while None not in pauses:
        pauses.append(sweep.schedule.lost(sweep.take("a"), "a", FULL, begun=True))
    assert len(pauses) == 5
    assert not sweep.given_up
    whole = sweep.take("b")
    assert whole.items == [0, 1]  # the cells are not the cause
    for _ in range(3):
        assert not sweep.given_up
        sweep.schedule.lost(whole, "b", FULL, begun=True)
    assert sweep.given_up == dict.fromkeys((0, 1), "its board failed 8 times; last error: full")


def test_a_cell_that_no_board_can_do_is_given_up_and_the_boards_go_on() -> None:
    sweep = Sweep({"pi4": [9.0, 5.0, 4.0, 3.0]}, {"a": "pi4", "b": "pi4"}, (0.0,) * 3)
    done: list[int] = []
    for board in itertools.cycle("ab"):
        if len(done) + len(sweep.given_up) == 4:
            break
        task = sweep.take(board)
        if task.items == [0]:
            assert sweep.schedule.lost(task, board, FULL, begun=True) is not None
        else:
            done += task.items
            sweep.schedule.done(task, board)
    assert done == [1, 2, 3]
    assert sweep.given_up == {0: "its board failed 3 times; last error: full"}


def test_a_failed_board_is_not_waited_for_when_others_have_done_everything() -> None:
    sweep = Sweep({"pi4": [1.0]}, {"a": "pi4", "b": "pi4"})
    sweep.schedule.lost(sweep.take("a"), "a", FULL, begun=True)
    with ThreadPoolExecutor(1) as pool:
        resting = pool.submit(sweep.schedule.rest, "a", 600.0, sweep.stop)
        sweep.schedule.done(sweep.take("b"), "b")
        assert resting.result(timeout=10)
    began = time.monotonic()
    sweep = Sweep({"pi4": [1.0]}, {"a": "pi4"})
    assert sweep.schedule.rest("a", 0.1, sweep.stop)
    assert time.monotonic() - began >= 0.1
    sweep.stop.set()
    assert not sweep.schedule.rest("a", 600.0, sweep.stop)


def test_cells_measured_in_turns_are_for_themselves_once_they_were_lost() -> None:
    sweep = Sweep({"pi4": [6.0, 6.0, 6.0]}, {"a": "pi4", "b": "pi4"}, (0.0,) * 9, together=3)
    task = sweep.take("a")
    assert task.items == [0, 1, 2]
    sweep.schedule.lost(task, "a", DEAD, begun=False)
    assert sweep.take("a") is task
    sweep.schedule.lost(task, "a", DEAD, begun=True)
    parts = [sweep.take(board) for board in "aba"]
    assert [part.items for part in parts] == [[0], [1], [2]]
    for part in parts[:2]:
        sweep.schedule.done(part, "a")
    for board in "ab":
        assert not sweep.given_up
        sweep.schedule.lost(parts[2], board, DEAD, begun=True)
    assert sweep.given_up == {2: "its board failed 3 times; last error: dead"}
    assert sweep.is_over("b")


def test_a_task_of_another_process_is_tried_again_later() -> None:
    sweep = Sweep({"pi4": [9.0, 1.0]}, {"a": "pi4"})
    busy = sweep.take("a")
    sweep.schedule.postpone(busy, 0.05)
    other = sweep.take("a")
    assert (busy.items, other.items) == ([0], [1])
    sweep.schedule.done(other, "a")
    assert sweep.take("a") is busy


def test_a_waiting_board_is_interrupted() -> None:
    sweep = Sweep({"pi4": [1.0]}, {"a": "pi4", "b": "pi4"})
    sweep.take("a")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sweep.take, "b")
        sweep.stop.set()
        with pytest.raises(Interrupted):
            waiting.result(timeout=10)


@given(
    cells=st.integers(0, 25),
    faults=st.lists(st.sampled_from(["done", "lost", "full", "unreachable", "refused", "busy"]), max_size=80),
    names=st.integers(1, 4),
    together=st.integers(1, 3),
)
def test_every_cell_ends_once_whatever_boards_do(
    cells: int, faults: list[str], names: int, together: int
) -> None:
    boards = {f"board {number}": "pi4" for number in range(names)}
    sweep = Sweep({"pi4": [float(number % 5) for number in range(cells)]}, boards, together=together)
    done: list[int] = []
    events = iter(faults)
    lock = threading.Lock()

    def serve(board: str) -> None:
        while (task := sweep.schedule.take(board, sweep.stop)) is not None:
            with lock:
                event = next(events, "done")
            if event == "busy":
                sweep.schedule.postpone(task, 0.0)
            elif event == "done":
                done.extend(task.items)
                sweep.schedule.done(task, board)
            else:
                begun, lasting = event in ("lost", "full"), event == "refused"
                error = FULL if event == "full" else DEAD
                if sweep.schedule.lost(task, board, error, begun=begun, lasting=lasting) is None:
                    return

    with ThreadPoolExecutor(names) as pool:
        list(pool.map(serve, boards))
    assert sorted([*done, *sweep.given_up]) == list(range(cells))
