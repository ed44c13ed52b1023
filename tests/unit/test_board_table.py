"""The boards of a running sweep on terminals of every size, and as lines."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from harness.report.board_table import BoardTable
from harness.sweep.board_activity import BoardStatus, State, Timings

HOSTILE = "[red]desk[/red]\n\x1b[2J\x9b31m\r\u202e[/]"
ESCAPED = r"[red]desk[/red]\n\x1b[2J\x9b31m\r\u202e[/]"


def left(target: str) -> tuple[int, float]:
    return 10, 10.0


def board_status(name: str, state: State, what: str = "", **more: object) -> BoardStatus:
    found = BoardStatus(name, "pi4")
    found.enter(state, what)
    found.activity = found.activity._replace(**more)  # type: ignore[arg-type]
    return found


def lines(table: BoardTable, height: int = 20, width: int = 100) -> list[str]:
    """As the display on a terminal of this width draws it."""
    console = Console(file=io.StringIO(), width=width, height=height + 1)
    options = console.options.update(no_wrap=True, overflow="ignore")
    drawn = console.render_lines(table.drawn(height), options, pad=False)
    return ["".join(segment.text for segment in line) for line in drawn]


def test_a_board_has_a_row_with_all_that_is_known_of_it() -> None:
    busy = board_status("desk", State.MEASURING, "pi4 net int8 1 thread", done=3, failed=1)
    busy.activity = busy.activity._replace(
        since=busy.activity.since - 130, timings=Timings(4, 4.0, 1600.0, 4.0, 1600.0)
    )
    cooling = board_status("shelf", State.MEASURING, "pi4 net fp32", detail="shelf cools down: 71.5 of 65 °C")
    heading, *rows = lines(BoardTable([busy, cooling, BoardStatus("evaluation")], left))
    assert heading.split() == ["board", "target", "state", "for", "done", "failed", "left"]
    assert [row.split() for row in rows] == [
        *(["desk", "pi4", "measuring", "net", "int8", "1", "thread", "2", "min", "3", "1", "32", "min"],),
        *(["shelf", "pi4", "cools", "down:", "71.5", "of", "65", "°C", "0", "s", "0", "0", "32", "min"],),
        ["evaluation", "idle", "0", "0", "–"],  # noqa: RUF001 - as drawn
    ]


def test_boards_in_trouble_say_why_and_how_long() -> None:
    retrying = board_status("desk", State.RETRYING, "no answer")
    retrying.enter(State.RETRYING, "no answer", seconds=30.0)
    gone = board_status("shelf", State.QUARANTINED, "another host key")
    _, first, second = lines(BoardTable([retrying, gone], left))
    assert "retrying in 30 s: no answer" in first
    assert "quarantined: another host key" in second


def test_where_there_is_no_room_for_all_trouble_and_work_come_first() -> None:
    states = [State.FINISHED, State.IDLE, State.MEASURING, State.QUARANTINED, State.RETRYING]
    board_statuses = [board_status(f"b{number}", states[number % 5]) for number in range(200)]
    table = BoardTable(board_statuses, left)
    drawn = lines(table, height=100)
    assert len(drawn) == 100
    words = [row.split()[2].rstrip(":") for row in drawn[1:-1]]
    assert sorted(words[:80]) == ["quarantined"] * 40 + ["retrying"] * 40
    assert words[80:] == ["measuring"] * 18
    assert drawn[-1] == "and 102 more: 22 measuring, 40 idle, 40 finished"
    assert [row.split()[0] for row in lines(table, height=201)[1:]] == [f"b{n}" for n in range(200)]


@given(st.integers(0, 60), st.integers(1, 30), st.integers(8, 200))
def test_it_never_takes_more_lines_or_columns_than_there_are(boards: int, height: int, width: int) -> None:
    board_statuses = [
        board_status(f"board {n} " + "long " * n, State.MEASURING, "net " * 99) for n in range(boards)
    ]
    drawn = lines(BoardTable(board_statuses, left), height, width)
    assert len(drawn) <= max(height, 3)
    assert all(len(line) <= width for line in drawn)
    if boards >= height > 2:
        assert drawn[-1].startswith(f"and {boards - height + 2} more"[: width - 1])


@given(st.text(st.characters(), max_size=40), st.integers(40, 120))
@example(HOSTILE, 120)
def test_hostile_names_neither_steer_the_terminal_nor_break_lines(name: str, width: int) -> None:
    strange = BoardStatus(name, name)
    strange.enter(State.MEASURING, name)
    table = BoardTable([strange, board_status("desk", State.QUARANTINED, name)], left)
    drawn = lines(table, width=width)
    assert len(drawn) == 3
    told = table.news()
    assert len(told) == 1
    strange.tell(name)
    for line in [*drawn, *lines(table, width=width), *told]:
        assert not [
            letter for letter in line if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        ]


def test_markup_in_names_is_text() -> None:
    assert ESCAPED in lines(BoardTable([board_status("desk", State.QUARANTINED, HOSTILE)], left))[1]
    assert (
        BoardTable([board_status(HOSTILE, State.FINISHED)], left).news()[0].startswith(f"{ESCAPED}: finished")
    )


def test_lines_are_told_once_for_each_change() -> None:
    desk = board_status(
        "desk", State.MEASURING, "pi4 net int8", done=2, timings=Timings(2, 2.0, 240.0, 2.0, 240.0)
    )
    table = BoardTable([desk, board_status("shelf", State.OPENING)], left)
    assert table.news() == ["desk: measuring net int8 (2 done, 0 failed, pi4 10 min left)"]
    assert table.news() == []
    desk.enter(State.MEASURING, "pi4 net fp32")
    assert [line.split(" (")[0] for line in table.news()] == ["desk: measuring net fp32"]
    desk.enter(State.RETRYING, "no answer")
    assert table.news() == []  # the sweep has warned of it
    desk.enter(State.MEASURING, "pi4 net fp32")
    assert len(table.news()) == 1


@pytest.mark.parametrize("state", [State.OPENING, State.WAITING, State.IDLE])
def test_short_states_are_reported_only_if_they_last(state: State) -> None:
    desk = board_status("desk", state)
    table = BoardTable([desk], left)
    assert table.news() == []
    desk.activity = desk.activity._replace(since=desk.activity.since - 2.0)
    assert table.news() == [f"desk: {state} (0 done, 0 failed)"]
