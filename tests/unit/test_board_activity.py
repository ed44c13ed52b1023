"""The activity of boards during a sweep, and the estimate of the remaining time."""

from __future__ import annotations

import time

import pytest
from cells_in_store import done
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BoardUnreachableError, HarnessError
from harness.locks import Interrupted
from harness.measure.result import Outcome, Work
from harness.sweep.board_activity import Backlog, BoardStatus, State, Timings, seconds_left
from harness.sweep.worker import Job


def job(outcome: Outcome | Exception, board_status: BoardStatus, seen: list[State], turns: int = 1) -> Job:
    def perform() -> Work:
        for turn in range(turns):
            if turn:
                yield
            seen.append(board_status.activity.state)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Job(name="pi4 net int8", table="cells", key="k", perform=perform)


def perform(job: Job) -> Outcome:
    """Does a job to its end."""
    work = job.perform()
    while True:
        try:
            next(work)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def timings(*measured: tuple[float, float]) -> Timings:
    """Of cells with these costs and seconds."""
    return sum((Timings(1, cost, s, cost * cost, cost * s) for cost, s in measured), Timings())


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (done(), (1, 0)),
        (Outcome(status="failed", error="wrong bits"), (0, 1)),
        (HarnessError("no samples"), (0, 1)),
        (ZeroDivisionError("0"), (0, 1)),
        (BoardUnreachableError("lost"), (0, 0)),
        (Interrupted(), (0, 0)),
    ],
)
def test_a_watched_job_tells_its_begin_and_its_end(
    outcome: Outcome | Exception, counts: tuple[int, int]
) -> None:
    board_status, seen = BoardStatus("desk", "pi4"), list[State]()
    watched = board_status.watched(job(outcome, board_status, seen), cost=3.0)
    assert board_status.activity.state is State.IDLE
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome)):
            perform(watched)
    else:
        found = perform(watched)
        expected = done(wall_seconds=0.0) if outcome.status == "done" else outcome
        assert found == expected
    assert seen == [State.MEASURING]
    assert (board_status.activity.done, board_status.activity.failed) == counts
    assert board_status.activity.timings.cells == sum(counts)
    assert board_status.activity.state is (State.IDLE if sum(counts) else State.MEASURING)


def test_a_new_state_replaces_the_old_one_and_keeps_the_counts() -> None:
    board_status, seen = BoardStatus("desk", "pi4"), list[State]()
    perform(board_status.watched(job(done(), board_status, seen)))
    board_status.tell("cools down: 70 of 65 °C")
    began = board_status.activity.since
    assert board_status.activity.detail == "cools down: 70 of 65 °C"
    board_status.enter(State.RETRYING, "no answer", seconds=30.0)
    activity = board_status.activity
    assert (activity.state, activity.what, activity.detail) == (State.RETRYING, "no answer", "")
    assert activity.until - activity.since == pytest.approx(30.0)
    assert activity.since >= began
    assert activity.done == 1


def test_the_turns_of_a_job_count_as_one_and_so_do_their_times() -> None:
    board_status, seen = BoardStatus("desk", "pi4"), list[State]()
    first, other = (
        board_status.watched(job(done(), board_status, seen, turns=2)).perform() for _ in range(2)
    )
    for work in (first, other):
        next(work)
        time.sleep(0.1)  # no turn of either
    spent = board_status.activity.spent
    assert 0 < spent < 0.1
    with pytest.raises(StopIteration):
        next(first)
    assert seen == [State.MEASURING] * 3
    assert (board_status.activity.done, board_status.activity.timings.cells) == (1, 1)
    assert 0 < board_status.activity.timings.seconds < 0.1
    assert 0 < board_status.activity.spent < spent
    other.close()
    assert board_status.activity.spent == pytest.approx(0.0, abs=1e-9)
    assert board_status.activity.done == 1


def test_a_lost_job_is_closed_with_its_watch() -> None:
    board_status, closed = BoardStatus("desk", "pi4"), list[str]()

    def work() -> Work:
        try:
            yield
        finally:
            closed.append("closed")
        return done()

    watched = board_status.watched(Job(name="cell", table="cells", key="k", perform=work)).perform()
    next(watched)
    assert not closed
    watched.close()
    assert closed == ["closed"]


def test_the_backlog_is_what_has_not_ended() -> None:
    backlog = Backlog({"a": ("pi4", 1.0), "b": ("pi4", 3.0), "c": ("pi5", 5.0)})
    assert (backlog.left("pi4"), backlog.left("pi5"), backlog.left("host")) == ((2, 4.0), (1, 5.0), (0, 0.0))
    for key in ("b", "b", "an evaluation"):
        backlog.end(key)
    assert (backlog.left("pi4"), backlog.left("pi5")) == ((1, 1.0), (1, 5.0))


def test_the_time_left_is_unknown_before_the_first_measurement() -> None:
    board_status = BoardStatus("desk", "pi4")
    assert Timings().predict(3, 3.0) is None
    assert seconds_left([board_status], 3, 3.0) is None


def test_times_grow_with_costs_as_far_as_they_have() -> None:
    line = timings((1.0, 7.0), (2.0, 9.0), (4.0, 13.0))  # 5 + 2 * cost
    assert line.predict(10, 30.0) == pytest.approx(10 * 5 + 2 * 30)
    assert timings((2.0, 4.0), (2.0, 6.0)).predict(3, 100.0) == pytest.approx(15.0)  # equal costs say nothing
    assert timings((1.0, 9.0), (3.0, 5.0)).predict(2, 50.0) == pytest.approx(14.0)  # shorter ones took longer
    assert timings((10.0, 1.0), (20.0, 9.0)).predict(1, 30.0) == pytest.approx(10.0)  # would begin below 0


@given(
    st.lists(st.tuples(st.floats(1e3, 1e12), st.floats(0, 1e4)), min_size=1),
    st.integers(0, 10_000),
    st.floats(0, 1e15),
)
def test_no_prediction_is_negative(measured: list[tuple[float, float]], cells: int, cost: float) -> None:
    predicted = timings(*measured).predict(cells, cost)
    assert predicted is not None
    assert predicted >= -1e-6


def test_the_boards_of_a_target_share_what_is_left() -> None:
    board_statuses = [BoardStatus(name, "pi4") for name in "abc"]
    board_statuses[0].activity = board_statuses[0].activity._replace(timings=timings((1.0, 10.0)))
    assert seconds_left(board_statuses, 6, 6.0) == pytest.approx(20.0)
    assert seconds_left(board_statuses, 2, 2.0) == pytest.approx(10.0)  # the third has nothing to do
    board_statuses[1].enter(State.QUARANTINED, "gone")
    assert seconds_left(board_statuses, 6, 6.0) == pytest.approx(30.0)
    board_statuses[0].enter(State.MEASURING, "cell")
    board_statuses[0].activity = board_statuses[0].activity._replace(since=time.monotonic() - 4.0)
    assert seconds_left(board_statuses, 6, 6.0) == pytest.approx(28.0, abs=0.5)
    board_statuses[0].activity = board_statuses[0].activity._replace(spent=6.0)
    assert seconds_left(board_statuses, 6, 6.0) == pytest.approx(25.0, abs=0.5)
    assert seconds_left(board_statuses, 0, 0.0) is None
    board_statuses[0].enter(State.QUARANTINED, "gone")
    board_statuses[2].enter(State.FINISHED)
    assert seconds_left(board_statuses, 6, 6.0) is None
