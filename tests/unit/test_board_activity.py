"""What boards do while a sweep runs, and how long the rest will take."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BoardUnreachableError, HarnessError
from harness.locks import Interrupted
from harness.store.store import Outcome
from harness.sweep.board_activity import WALL_SECONDS, Backlog, Lane, State, Timings, seconds_left
from harness.sweep.worker import Job, Work


def job(outcome: Outcome | Exception, lane: Lane, seen: list[State], turns: int = 1) -> Job:
    def perform() -> Work:
        for turn in range(turns):
            if turn:
                yield
            seen.append(lane.activity.state)
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
        (Outcome(status="done"), (1, 0)),
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
    lane, seen = Lane("desk", "pi4"), list[State]()
    watched = lane.watched(job(outcome, lane, seen), cost=3.0)
    assert lane.activity.state is State.IDLE
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome)):
            perform(watched)
    else:
        found = perform(watched)
        assert found == replace(outcome, result={WALL_SECONDS: pytest.approx(0, abs=1)})
    assert seen == [State.MEASURING]
    assert (lane.activity.done, lane.activity.failed) == counts
    assert lane.activity.timings.cells == sum(counts)
    assert lane.activity.state is (State.IDLE if sum(counts) else State.MEASURING)


def test_what_a_board_is_at_replaces_what_it_was_at_and_keeps_the_counts() -> None:
    lane, seen = Lane("desk", "pi4"), list[State]()
    perform(lane.watched(job(Outcome(status="done"), lane, seen)))
    lane.tell("cools down: 70 of 65 °C")
    began = lane.activity.since
    assert lane.activity.detail == "cools down: 70 of 65 °C"
    lane.enter(State.RETRYING, "no answer", seconds=30.0)
    activity = lane.activity
    assert (activity.state, activity.what, activity.detail) == (State.RETRYING, "no answer", "")
    assert activity.until - activity.since == pytest.approx(30.0)
    assert activity.since >= began
    assert activity.done == 1


def test_the_turns_of_a_job_count_as_one_and_so_do_their_times() -> None:
    lane, seen = Lane("desk", "pi4"), list[State]()
    first, other = (
        lane.watched(job(Outcome(status="done"), lane, seen, turns=2)).perform() for _ in range(2)
    )
    for work in (first, other):
        next(work)
        time.sleep(0.1)  # no turn of either
    spent = lane.activity.spent
    assert 0 < spent < 0.1
    with pytest.raises(StopIteration):
        next(first)
    assert seen == [State.MEASURING] * 3
    assert (lane.activity.done, lane.activity.timings.cells) == (1, 1)
    assert 0 < lane.activity.timings.seconds < 0.1
    assert 0 < lane.activity.spent < spent
    other.close()
    assert lane.activity.spent == pytest.approx(0.0, abs=1e-9)
    assert lane.activity.done == 1


def test_a_lost_job_is_closed_with_its_watch() -> None:
    lane, closed = Lane("desk", "pi4"), list[str]()

    def work() -> Work:
        try:
            yield
        finally:
            closed.append("closed")
        return Outcome(status="done")

    watched = lane.watched(Job(name="cell", table="cells", key="k", perform=work)).perform()
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


def test_nothing_is_predicted_before_anything_was_measured() -> None:
    lane = Lane("desk", "pi4")
    assert Timings().predict(3, 3.0) is None
    assert seconds_left([lane], 3, 3.0) is None


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
    lanes = [Lane(name, "pi4") for name in "abc"]
    lanes[0].activity = lanes[0].activity._replace(timings=timings((1.0, 10.0)))
    assert seconds_left(lanes, 6, 6.0) == pytest.approx(20.0)
    assert seconds_left(lanes, 2, 2.0) == pytest.approx(10.0)  # the third has nothing to do
    lanes[1].enter(State.QUARANTINED, "gone")
    assert seconds_left(lanes, 6, 6.0) == pytest.approx(30.0)
    lanes[0].enter(State.MEASURING, "cell")
    lanes[0].activity = lanes[0].activity._replace(since=time.monotonic() - 4.0)
    assert seconds_left(lanes, 6, 6.0) == pytest.approx(28.0, abs=0.5)
    lanes[0].activity = lanes[0].activity._replace(spent=6.0)
    assert seconds_left(lanes, 6, 6.0) == pytest.approx(25.0, abs=0.5)
    assert seconds_left(lanes, 0, 0.0) is None
    lanes[0].enter(State.QUARANTINED, "gone")
    lanes[2].enter(State.FINISHED)
    assert seconds_left(lanes, 6, 6.0) is None
