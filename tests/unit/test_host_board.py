"""This machine as a board."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.boards.board import RunTimeoutError
from harness.boards.host import HostBoard
from harness.configuration.targets import load_target
from harness.errors import ConfigurationError, HarnessError


@pytest.fixture
def board() -> HostBoard:
    return HostBoard(load_target("host"))


def test_a_program_gets_its_variables(board: HostBoard) -> None:
    words = ["sh", "-c", 'echo "$HARNESS_A-${PATH:+path}"']
    assert board.run(words, timeout=5, environment={"HARNESS_A": "a b"}).stdout == "a b-path\n"


def test_a_program_runs_to_its_end(board: HostBoard) -> None:
    result = board.run([sys.executable, "-c", "import sys; print('ü'); sys.exit('said')"], timeout=20)
    assert (result.status, result.stdout, result.stderr) == (1, "ü\n", "said\n")


def test_a_signal_is_a_negative_status(board: HostBoard) -> None:
    assert board.run(["sh", "-c", "kill -ILL $$"], timeout=5).status == -signal.SIGILL


def test_out_of_time_the_program_and_its_children_are_killed(board: HostBoard, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(RunTimeoutError, match=r"sh: did not end within 2 s on host"):
        board.run(["sh", "-c", f"sleep 60 & echo $! >{pid}; wait"], timeout=2)
    assert time.monotonic() - started < 10
    assert wait_until_gone(int(pid.read_text()))


def test_leaving_ends_what_another_thread_runs(board: HostBoard) -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(board.run(["sleep", "60"], timeout=60)))
    with board:
        thread.start()
        while not board._running:
            time.sleep(0.01)
    thread.join(timeout=10)
    assert [result.status for result in results] == [-signal.SIGKILL]


def test_a_program_that_is_not_there_is_named(board: HostBoard) -> None:
    with pytest.raises(HarnessError, match="/nowhere/mpe: cannot be started"):
        board.run(["/nowhere/mpe"], timeout=5)


def test_files_stay_where_they_are(board: HostBoard, tmp_path: Path) -> None:
    file = tmp_path / "a.cfg"
    file.write_text("[net]")
    assert board.deploy({"cfg": file}) == {"cfg": str(file)}
    board.fetch(str(file), tmp_path / "b.cfg")
    assert (tmp_path / "b.cfg").read_text() == "[net]"


def test_a_file_that_is_not_there_cannot_be_deployed_or_fetched(board: HostBoard, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        board.deploy({"cfg": tmp_path / "absent"})
    with pytest.raises(HarnessError, match="absent"):
        board.fetch(str(tmp_path / "absent"), tmp_path / "b")


def test_nothing_is_profiled(board: HostBoard, tmp_path: Path) -> None:
    assert not board.profile(["true"], tmp_path / "profile", timeout=1)
    assert not list(tmp_path.iterdir())


def wait_until_gone(process: int) -> bool:
    """Whether a process vanishes, or is a zombie that nobody reaps, within five seconds."""
    for _ in range(100):
        try:
            os.kill(process, 0)
            if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False
