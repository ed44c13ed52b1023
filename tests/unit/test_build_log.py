"""Logs of builds: one line while all goes well, the end of the log where something fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness import console
from harness.build.log import build_log
from harness.errors import BuildError


def packages(number: int) -> list[str]:
    return [f"Setting up package-{index} (1.0) ..." for index in range(number)]


def test_a_successful_build_logs_two_lines_to_a_pipe_and_all_lines_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with build_log(tmp_path / "logs" / "a.log", "image pi4") as log:
        for line in packages(200):
            log.line(line)
    assert capsys.readouterr().err == "image pi4 ...\n✓ image pi4 (0 s)\n"
    assert (tmp_path / "logs" / "a.log").read_text().splitlines() == packages(200)


def test_now_and_then_a_pipe_gets_the_line_that_is_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console._Lines, "interval", 0.0)
    with build_log(tmp_path / "a.log", "image pi4") as log:
        log.at("step 2/9 (RUN)")
        log.line("Setting up libc6 ...")
        with log.counting("compiling", 2) as progress:
            log.line("[1/2] Building a.cpp")
            progress.advance()
    assert capsys.readouterr().err.splitlines() == [
        "image pi4 ...",
        "image pi4: step 2/9 (RUN)",
        "image pi4: step 2/9 (RUN): Setting up libc6 ...",
        "image pi4: compiling ...",
        "image pi4: compiling: 1/2",
        "✓ image pi4 (0 s)",
    ]


def test_the_lines_in_a_pipe_become_more_seldom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with build_log(tmp_path / "a.log", "step build") as log:
        for _ in range(3600):
            now += 1.0
            log.line("Compiling")
    assert 50 < len(capsys.readouterr().err.splitlines()) < 75


def test_a_failure_shows_the_end_of_the_log_and_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        with build_log(tmp_path / "a.log", "image pi4") as log:
            for line in packages(200):
                log.line(line)
            raise BuildError("the image pi4 was not built: exit status 1", hint="Look at its Dockerfile.")

    with pytest.raises(BuildError) as caught:
        fail()
    first, *quoted = caught.value.message.splitlines()
    assert first == "the image pi4 was not built: exit status 1:"
    assert quoted == [f"  | {line}" for line in packages(200)[-20:]]
    assert caught.value.hint == f"Look at its Dockerfile. The whole log is in {tmp_path / 'a.log'}."
    assert "✓" not in capsys.readouterr().err


@pytest.mark.parametrize("mark", ["FAILED: a.o", "CMake Error at CMakeLists.txt:3", "E: no such package"])
def test_the_end_begins_with_the_first_failure(tmp_path: Path, mark: str) -> None:
    def fail() -> None:
        with build_log(tmp_path / "a.log", "engine") as log:
            for line in [*packages(50), mark, "because", *packages(100)]:
                log.line(line)
            raise BuildError("ninja failed with status 1")

    with pytest.raises(BuildError) as caught:
        fail()
    assert caught.value.message.splitlines()[1:3] == [f"  | {mark}", "  | because"]


def test_a_line_that_the_error_quotes_is_not_shown_twice(tmp_path: Path) -> None:
    def fail() -> None:
        with build_log(tmp_path / "a.log", "apt-get") as log:
            log.line("Reading package lists...")
            log.line("E: no such package")
            raise BuildError("`apt-get install` failed: E: no such package")

    with pytest.raises(BuildError) as caught:
        fail()
    assert caught.value.message == "`apt-get install` failed: E: no such package"
    assert str(tmp_path / "a.log") in caught.value.hint


def test_an_error_before_anything_was_printed_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught, build_log(tmp_path / "a.log", "image"):
        raise BuildError("no base", hint="Install it.")
    assert caught.value.message == "no base"


def test_quiet_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console.set_quiet(True)
    try:
        with build_log(tmp_path / "a.log", "image") as log:
            log.line("x")
    finally:
        console.set_quiet(False)
    assert capsys.readouterr().err == ""
    assert (tmp_path / "a.log").read_text() == "x\n"


def test_more_is_added_to_the_log_of_a_step(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with build_log(tmp_path / "a.log", "step", append=True) as log:
            log.line(text)
    assert (tmp_path / "a.log").read_text() == "one\ntwo\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_with_the_room_that_it_takes() -> None:
    with (
        pytest.raises(BuildError, match="No space left on device\n  It takes 1 GB"),
        build_log(Path("/dev/full"), "image", room="It takes 1 GB.") as log,
    ):
        log.line("x")
