"""Standard error while something runs; standard output is kept for data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from harness import console


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    yield
    console.set_quiet(False)


def test_messages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    console.log("doing")
    console.warn("odd")
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "doing\nwarning: odd\n")


def test_quiet_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    console.set_quiet(True)
    console.log("doing")
    console.warn("odd")
    with console.progress("working", 3) as bar:
        bar.advance()
        bar.describe("still")
    assert capsys.readouterr().err == "warning: odd\n"


def test_without_a_terminal_progress_is_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console._Lines, "interval", 0.0)
    with console.progress("working", 3) as bar:
        bar.advance(2)
        bar.describe("more")
    assert capsys.readouterr().err == "working ...\nworking: 2/3\nmore: 2/3\n"


def test_on_a_terminal_bars_share_one_display(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(console, "interactive", lambda: True)
    with console.progress("outer [1]", 2) as outer:
        with console.progress("inner", None) as inner:
            shared = console._bar
            assert shared is not None
            inner.advance()
            outer.advance()
            console.log("a [line] between")
            assert [task.completed for task in shared.tasks] == [1, 1]
        outer.describe("renamed")
        assert [task.description for task in shared.tasks] == ["renamed"]
    assert console._bar is None
    found = capsys.readouterr()
    assert found.out == ""
    assert "a [line] between" in found.err
    assert "outer [1]" in found.err


def test_a_long_description_leaves_the_bar_its_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(console, "interactive", lambda: True)
    with console.progress("many words " * 20, 1234):
        pass
    assert "0/1234" in capsys.readouterr().err


class Boards:
    """A view of so many lines, with news that are told once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.rooms: list[int] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    def drawn(self, height: int) -> str:
        self.rooms.append(height)
        return "the boards"

    def news(self) -> list[str]:
        news, self.told = self.told, []
        return news


def test_a_view_is_drawn_above_the_bars_in_what_room_they_leave(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(console, "interactive", lambda: True)
    view = Boards()
    with console.live(view):
        assert console._bar is not None
        console._bar.refresh()
        with console.progress("a bar", 3):
            console._bar.refresh()
        console.log("a line between")
    assert console._bar is None
    assert {*view.rooms} == {19, 18}
    said = capsys.readouterr().err
    assert said.index("the boards") < said.index("a bar") < said.index("a line between")


def test_where_a_view_is_drawn_a_threads_progress_is_told_to_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "interactive", lambda: True)
    view = Boards()
    with console.live(view), console.telling(view.tell), console.progress("sending", 3) as bar:
        assert console._bar is not None
        assert not console._bar.tasks
        bar.advance(2)
        bar.describe("taking")
    assert view.told == ["sending: 0/3", "sending: 2/3", "taking: 2/3", ""]
    with console.telling(view.tell), console.progress("without a view", None):
        assert console._bar is not None
        assert [task.description for task in console._bar.tasks] == ["without a view"]
    assert len(view.told) == 4


def test_without_a_terminal_a_views_news_are_lines_and_bars_stay_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_NEWS_SECONDS", 0.01)
    view = Boards()
    view.tell("first")
    with console.live(view), console.telling(view.tell):
        deadline = time.monotonic() + 30
        while view.told and time.monotonic() < deadline:
            time.sleep(0.005)
        with console.progress("sending", 3):
            pass
    view.tell("untold")
    assert capsys.readouterr().err == "first\nsending ...\n"
    console.set_quiet(True)
    with console.live(view):
        pass
    assert view.told == ["untold"]


def test_the_last_changes_of_a_view_are_logged(capsys: pytest.CaptureFixture[str]) -> None:
    view = Boards()
    with console.live(view):
        view.tell("last")
    assert capsys.readouterr().err == "last\n"


def test_json_is_text_that_machines_read(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_json({"name": "é", "values": [1, 2.5, None]})
    out = capsys.readouterr().out
    assert "é" in out
    assert json.loads(out) == {"name": "é", "values": [1, 2.5, None]}
    with pytest.raises(ValueError, match="JSON"):
        console.emit_json(float("nan"))


def test_lines_name_what_they_speak_of(capsys: pytest.CaptureFixture[str]) -> None:
    with console.speaking_of("accuracy of m int8"):
        console.log("a line")
        with console.progress("evaluating", total=2) as bar:
            bar.advance()
    console.log("another")
    assert capsys.readouterr().err.splitlines() == [
        "accuracy of m int8: a line",
        "accuracy of m int8: evaluating ...",
        "another",
    ]


def test_warnings_name_what_they_speak_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    with console.speaking_of("pi4 net int8"):
        console.warn("the clock moved")
        console.warn("pi4 net int8: the clock moved")
    assert capsys.readouterr().err.splitlines() == ["warning: pi4 net int8: the clock moved"] * 2
