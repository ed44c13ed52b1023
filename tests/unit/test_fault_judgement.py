"""The judgement of the fault campaign (tests/faults): ends of cells, causes, repeated work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fault_kinds import KINDS, Faults
from judgement import LATE_SECONDS, Done, Tally, note_ends, noted_ends

from harness.measure.result import Outcome
from harness.store.store import Store

KIND = {kind.name: kind for kind in KINDS}
FAILED = Outcome(status="failed", error="because")
DONE = Outcome(status="done")


def done(kind: str, board: str = "board 1", begun: float = 100.0, ended: float = 101.0) -> Done:
    return Done(kind=KIND[kind], board=board, begun=begun, ended=ended)


@pytest.mark.parametrize(
    ("kind", "error", "finished", "explained"),
    [
        ("kill_engine", "mpe bench on board 1: ended by SIGKILL", 102, True),
        ("kill_engine", "mpe bench on board 2: ended by SIGKILL", 102, False),  # nothing was done to it
        ("kill_engine", "mpe bench on board 1: ended by SIGSEGV", 102, False),
        ("kill_engine", "mpe bench on board 1: ended by SIGKILL", 99, False),  # before
        ("kill_engine", "mpe bench on board 1: ended by SIGKILL", 102 + LATE_SECONDS, False),
        ("cut_run", "mpe bench on board 1: ended by SIGKILL", 102, False),  # another fault's
        ("cut_run", "lost 3 times, at last: board 1 (a@b:1): running sh: the connection was lost", 102, True),
        ("hang_engine", "mpe: did not end within 6 s on board 1", 107, True),
        ("cut_run", "board 1: unexpected EOFError: the connection was lost", 102, False),
        ("clock_jump", "board 1: the connection was lost", 102, False),
    ],
)
def test_a_cause_is_of_a_fault_that_was_done_to_that_board(
    kind: str, error: str, finished: float, explained: bool
) -> None:
    tally = Tally()
    tally.judge_cause(error, finished, [done(kind)])
    assert tally.causes == ({kind: 1} if explained else {})
    assert tally.holds is explained


def test_a_fault_that_is_being_done_explains_as_well() -> None:
    tally = Tally()
    fault = Done(kind=KIND["fill_host_disk"], board="", begun=100.0)
    tally.judge_cause("/results: no space left for results", 500.0, [fault])
    assert tally.holds


@pytest.mark.parametrize(
    ("ends", "twice"),
    [
        ([("done", 1)], 0),
        ([("failed", 1), ("done", 2)], 0),  # a later run does again what failed
        ([("failed", 1), ("failed", 2), ("failed", 3)], 0),
        ([("done", 1), ("done", 2)], 1),
        ([("done", 1), ("failed", 2)], 1),
        ([("failed", 1), ("done", 1)], 1),
        ([("failed", 1), ("failed", 1)], 1),
    ],
)
def test_an_end_after_an_end(ends: list[tuple[str, int]], twice: int) -> None:
    tally = Tally()
    faults = [done("kill_engine")]
    error = "on board 1: ended by SIGKILL"
    tally.judge_ends([("key", status, run, error, 102.0) for status, run in ends], faults)
    assert (tally.twice, tally.wrong_cause) == (twice, 0)


def test_rows_that_are_missing_or_wrong_are_counted() -> None:
    tally = Tally()
    rows = {
        "a": {"status": "done", "digest": "1"},
        "b": {"status": "done", "digest": "1"},
        "c": {"status": "failed"},
        "d": {"status": "pending"},
    }
    tally.judge_rows(rows, {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"})
    assert (tally.cells, tally.done, tally.failed, tally.lost, tally.wrong_digest) == (5, 2, 1, 2, 1)


def test_the_store_notes_every_end(tmp_path: Path) -> None:
    before = time.time()
    note_ends(tmp_path)
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        for outcome in (FAILED, DONE):
            store.complete_cell(run, "k", outcome)
    ends = noted_ends(tmp_path)
    assert [end[:4] for end in ends] == [("k", "failed", 1, "because"), ("k", "done", 1, "")]
    assert all(before <= end[4] <= time.time() for end in ends)


def test_every_kind_of_fault_is_one_that_can_be_done() -> None:
    assert all(callable(getattr(Faults, kind.name)) and kind.weight > 0 for kind in KINDS)
