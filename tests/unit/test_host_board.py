"""This machine as a board."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from started_processes import running

from harness.boards.base import RunTimeoutError, TooMuchOutputError
from harness.boards.host import HostBoard
from harness.boards.paths import BoardPaths
from harness.boards.sensors.sampler import sampled
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError

OPENED = """
import sys, time
from harness.boards.host import HostBoard
from harness.config.targets import load_target
board = HostBoard(load_target("host")).__enter__()
log = board.scratch("log")
"""
RUNNING = """
board.run(["sh", "-c", 'echo >"$1"; sleep 60 & echo $$ $! "$1" >"$2.new"; mv "$2.new" "$2"; wait', "sh",
           log, sys.argv[1]], timeout=60)
"""


@pytest.fixture
def board() -> Iterator[HostBoard]:
    with HostBoard(load_target("host")) as board:
        yield board


def test_a_program_gets_its_variables(board: HostBoard) -> None:
    words = ["sh", "-c", 'echo "$HARNESS_A-${PATH:+path}"']
    assert board.run(words, timeout=5, environment={"HARNESS_A": "a b"}).stdout == "a b-path\n"


def test_a_program_runs_to_its_end(board: HostBoard) -> None:
    result = board.run([sys.executable, "-c", "import sys; print('ü'); sys.exit('said')"], timeout=20)
    assert (result.status, result.stdout, result.stderr) == (1, "ü\n", "said\n")


def test_a_signal_is_a_negative_status(board: HostBoard) -> None:
    assert board.run(["sh", "-c", "kill -ILL $$"], timeout=5).status == -signal.SIGILL


def test_a_timeout_kills_the_program_and_its_children(board: HostBoard, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(RunTimeoutError, match=r"sh: did not end within 2 s on host"):
        board.run(["sh", "-c", f"sleep 60 & echo $! >{pid}; wait"], timeout=2)
    assert time.monotonic() - started < 10
    assert wait_until_gone(int(pid.read_text()))


def test_remaining_children_are_killed(board: HostBoard) -> None:
    result = board.run(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], timeout=20)
    assert (result.status, wait_until_gone(int(result.stdout))) == (0, True)


def test_exit_kills_programs_of_other_threads(tmp_path: Path) -> None:
    results = []
    started = tmp_path / "started"
    words = ["sh", "-c", 'echo >"$1"; exec sleep 60', "sh", str(started)]
    with HostBoard(load_target("host")) as board:
        thread = threading.Thread(target=lambda: results.append(board.run(words, timeout=60)))
        thread.start()
        assert wait_until(started.exists)
    thread.join(timeout=10)
    assert [result.status for result in results] == [-signal.SIGKILL]


def test_a_closed_board_runs_nothing_more(tmp_path: Path) -> None:
    """A thread between two programs must not start the second one after a sweep was aborted."""
    with HostBoard(load_target("host")) as board:
        pass
    with pytest.raises(BoardUnreachableError, match="host is closed"):
        board.run(["touch", str(tmp_path / "started")], timeout=5)
    assert not (tmp_path / "started").exists()
    with board:  # opened again
        assert board.run(["echo", "here"], timeout=5).stdout == "here\n"


def test_programs_end_with_a_killed_harness(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with running([sys.executable, "-c", OPENED + RUNNING, str(said)]) as harness:
        while not said.exists():
            assert harness.poll() is None
            time.sleep(0.01)
        harness.kill()
    shell, child, log = said.read_text().split()
    assert wait_until_gone(int(shell))
    assert wait_until_gone(int(child))
    assert wait_until(lambda: not Path(log).parent.exists())


def test_the_folder_of_a_killed_harness_is_removed() -> None:
    code = f"{OPENED}print(log, flush=True)\ntime.sleep(60)"
    with running([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        folder = Path(harness.stdout.readline()).parent
        assert folder.is_dir()
        harness.kill()
    assert wait_until(lambda: not folder.exists())


def test_files_of_ones_own_are_in_a_private_folder_that_goes() -> None:
    with HostBoard(load_target("host")) as board:
        path = Path(board.scratch("samples"))
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with pytest.raises(RunTimeoutError):
            board.run(["sh", "-c", 'echo 1 >"$1"; exec sleep 60', "sh", str(path)], timeout=1)
        assert path.read_text() == "1\n"
    assert not path.parent.exists()
    with pytest.raises(BoardUnreachableError, match="host is closed"):
        board.scratch("samples")


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


def test_the_host_cannot_profile(board: HostBoard) -> None:
    assert board.profiler is None


def wait_until_gone(process: int) -> bool:
    """Whether a process vanishes, or is a zombie that nobody reaps, within five seconds."""

    def gone() -> bool:
        try:
            os.kill(process, 0)
            return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except (ProcessLookupError, FileNotFoundError):
            return True

    return wait_until(gone)


def wait_until(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold within five seconds."""
    for _ in range(100):
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_program_with_endless_output_is_killed(stream: str) -> None:
    with HostBoard(load_target("host")) as board:
        script = f"echo begun; while :; do echo 0123456789012345678901234567890123456789 >&{stream}; done"
        with pytest.raises(TooMuchOutputError, match="sh: printed more than 1 MB on host"):
            board.run(["sh", "-c", script], timeout=60, most_output=1 << 20)
        assert board.run(["echo", "still there"], timeout=60).stdout == "still there\n"


def test_an_error_names_the_sampled_program(tmp_path: Path) -> None:
    words = sampled(["/usr/bin/yes"], str(tmp_path / "log"), BoardPaths(), 1, None)
    with HostBoard(load_target("host")) as board:
        with pytest.raises(TooMuchOutputError, match=r"^yes: printed more than 1 MB on host"):
            board.run(words, timeout=60, most_output=1 << 20)
        words = sampled(["/bin/sleep", "60"], str(tmp_path / "log"), BoardPaths(), 1, None)
        with pytest.raises(RunTimeoutError, match=r"^sleep: did not end within 0\.2 s on host"):
            board.run(words, timeout=0.2)
