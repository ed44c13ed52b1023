"""Standard error while something runs; standard output is kept for data."""

from __future__ import annotations

import json
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


def test_json_is_text_that_machines_read(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_json({"name": "é", "values": [1, 2.5, None]})
    out = capsys.readouterr().out
    assert "é" in out
    assert json.loads(out) == {"name": "é", "values": [1, 2.5, None]}
    with pytest.raises(ValueError, match="JSON"):
        console.emit_json(float("nan"))
