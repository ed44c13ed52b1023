"""The lock of a board and the end of sessions, against OpenSSH's server on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ssh_server import Server, address_below, running_server
from started_processes import running

from harness.boards.base import Completed, RunTimeoutError
from harness.boards.ssh import session
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.lock import held, take_command
from harness.config.targets import load_target
from harness.errors import BoardBusyError, BoardUnreachableError, HarnessError

NAME = "the shelf's $(id)\n\x1b[31mü"
SHOWN = r"the shelf's \$\(id\)\\n\\x1b\[31mü"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def address(server: Server, tmp_path: Path) -> SshAddress:
    return address_below(server, tmp_path)


def connect(address: SshAddress) -> SshBoard:
    return SshBoard(NAME, load_target("host"), address)


def left(address: SshAddress) -> list[str]:
    """The remains of sessions."""
    parts = ("sessions/*", "ended/*", "lock/*/*", "undo-*")
    return [str(path) for part in parts for path in Path(address.folder).glob(part)]


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_only_one_session_holds_the_lock(address: SshAddress, capsys: pytest.CaptureFixture[str]) -> None:
    with connect(address) as first, connect(address) as second:
        with (
            held(first, timeout=0),
            pytest.raises(BoardBusyError, match=SHOWN + r": .*@.* \(process \d+\) since .* UTC") as error,
            held(second, timeout=0.2),
        ):
            pass
        assert error.value.exit_status == 5
        assert str(error.value).count("\n") == 1  # before the hint
        assert f"(process {os.getpid()}) since" in capsys.readouterr().err
        with held(second, timeout=0):
            pass
        with held(first, timeout=0):
            pass
    assert not left(address)


def test_a_waiting_session_gets_a_released_lock(address: SshAddress) -> None:
    order = []
    with connect(address) as first, connect(address) as second:

        def follow() -> None:
            with held(second, timeout=30):
                order.append("second")

        with held(first, timeout=0):
            follower = threading.Thread(target=follow)
            follower.start()
            time.sleep(1)
            order.append("first")
        follower.join()
    assert order == ["first", "second"]


def test_a_wait_can_be_ended(address: SshAddress) -> None:
    class StopError(Exception):
        pass

    def stop(seconds: float) -> None:
        assert seconds > 0
        raise StopError

    with (
        connect(address) as first,
        connect(address) as second,
        held(first, timeout=0),
        pytest.raises(StopError),
        held(second, timeout=100, pause=stop),
    ):
        pass


def test_the_lock_is_released_after_an_error(address: SshAddress) -> None:
    with connect(address) as first, connect(address) as second:
        with pytest.raises(ZeroDivisionError), held(first, timeout=0):
            raise ZeroDivisionError
        with held(second, timeout=0):
            pass


ORCHESTRATOR = """
import sys
from pathlib import Path
from harness.boards.ssh.lock import held
from harness.boards.ssh.host_keys import parse_host_key
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.config.targets import load_target

port, user, key, host_key, folder, pids = sys.argv[1:]
host_key = parse_host_key(Path(host_key).read_text())
address = SshAddress(
    host="127.0.0.1", port=int(port), user=user, key=Path(key), host_key=host_key, folder=folder
)
script = 'trap "" TERM HUP; sleep 100 & echo busy >"$2"; echo "$PPID $$ $!" >"$1"; wait'
with SshBoard("shelf", load_target("host"), address) as board, held(board, timeout=0):
    with board._temporary_file() as path:
        board.run(["sh", "-c", script, "sh", pids, path], timeout=100)
"""


@contextlib.contextmanager
def orchestrator(
    server: Server, address: SshAddress, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process that holds the lock and runs a program there, and that program's processes."""
    pids = folder / "pids"
    options = [str(address.port), address.user, str(address.key), str(server.folder / "host.pub")]
    with running(
        [sys.executable, "-c", ORCHESTRATOR, *options, address.folder, str(pids)], stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), seconds=30)
        yield process, [int(pid) for pid in pids.read_text().split()]


def sshd_session(process: int) -> int:
    """The process of sshd that serves the session in which a process runs."""
    while True:
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        if Path(f"/proc/{process}/comm").read_text().startswith("sshd"):
            return process


@pytest.mark.parametrize("killed", ["orchestrator", "session of sshd"])
def test_a_killed_connection_is_cleaned_up_within_seconds(
    server: Server, address: SshAddress, tmp_path: Path, killed: str
) -> None:
    with connect(address) as other:
        with orchestrator(server, address, tmp_path) as (process, programs):
            with pytest.raises(BoardBusyError), held(other, timeout=0):
                pass
            assert not any(is_gone(program) for program in programs)
            os.kill(process.pid if killed == "orchestrator" else sshd_session(programs[0]), signal.SIGKILL)
            started = time.monotonic()
            with held(other, timeout=20):
                assert all(is_gone(program) for program in programs)
                assert time.monotonic() - started < 15
            process.wait(timeout=30)
            assert process.stderr is not None
            told = process.stderr.read().decode()
            assert ("BoardUnreachableError" in told) == (killed != "orchestrator")
        assert Path(address.folder, "sessions", other.session.name).is_dir()
    wait_until(lambda: not left(address))


def test_the_next_session_cleans_up_after_a_killed_keeper(
    server: Server, address: SshAddress, tmp_path: Path
) -> None:
    with orchestrator(server, address, tmp_path) as (process, programs):
        kill_sessions(address)
        process.kill()
        process.wait()
        assert len(left(address)) == 2  # the session and the lock
        assert not any(is_gone(program) for program in programs[1:])
        with connect(address) as board:
            assert all(is_gone(program) for program in programs)
            assert left(address) == [board.session.path]
            with held(board, timeout=0):
                pass


def kill_sessions(address: SshAddress) -> None:
    """Kills the keepers of all sessions with all that could tidy up after them."""
    for path in Path(address.folder, "sessions").iterdir():
        os.killpg(int(path.name.split("-")[0]), signal.SIGKILL)


def test_the_next_session_does_not_touch_living_sessions(
    server: Server, address: SshAddress, tmp_path: Path
) -> None:
    with connect(address) as board, orchestrator(server, address, tmp_path) as (process, programs):
        (dead,) = (
            path for path in Path(address.folder, "sessions").iterdir() if str(path) != board.session.path
        )
        os.killpg(int(dead.name.split("-")[0]), signal.SIGKILL)
        process.kill()
        process.wait()
        assert dead.is_dir()
        with connect(address):
            assert all(is_gone(program) for program in programs)
        assert left(address) == [board.session.path]


def test_a_silent_connection_is_closed(address: SshAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(address) as other:
        monkeypatch.setattr(session, "BEAT_SECONDS", 1000.0)
        monkeypatch.setattr(session, "SILENCE_SECONDS", 3)
        with connect(address) as silent, held(silent, timeout=0):
            with pytest.raises(BoardUnreachableError, match="running sleep: the board ended the session"):
                silent.run(["sleep", "60"], timeout=50)
            with pytest.raises(BoardUnreachableError, match="running true: the board ended the session"):
                silent.run(["true"], timeout=20)
            wait_until(lambda: left(address) == [other.session.path])


def test_an_idle_connection_that_answers_stays_open(
    address: SshAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SILENCE_SECONDS", 1)
    monkeypatch.setattr(session, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(session, "UNANSWERED_SECONDS", 1.0)
    with connect(address) as board:
        assert board.run(["sleep", "3"], timeout=20).status == 0


def test_a_killed_program_is_not_a_lost_session(address: SshAddress) -> None:
    with connect(address) as board:
        assert board.run(["sh", "-c", "kill -KILL $$"], timeout=20).status == -9


def test_a_failure_to_take_the_lock_is_not_a_busy_board(address: SshAddress) -> None:
    with connect(address) as board:
        claim = Path(board.session.path, "held")
        claim.write_text("in the way")
        with (
            pytest.raises(HarnessError, match=SHOWN + ": could not take the lock on the board"),
            held(board, timeout=0),
        ):
            pass


def slow(board: SshBoard, command: str) -> Callable[..., Completed]:
    """A board's `run` where commands with these words do not end in time."""
    original = board.run

    def run(argv: Sequence[str], **options: Any) -> Completed:
        if any(command in word for word in argv):
            raise RunTimeoutError(["sh"], "shelf", 60)
        return original(argv, **options)

    return run


def test_the_board_releases_a_lock_after_a_timeout(
    address: SshAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(address) as board, connect(address) as other:
        monkeypatch.setattr(board, "run", slow(board, "rmdir"))
        with held(board, timeout=0):
            measured = True
        assert measured
        assert (
            "could not release the lock on the board: sh: did not end within 60 s" in capsys.readouterr().err
        )
        with pytest.raises(BoardUnreachableError), held(board, timeout=0):
            pass
        with held(other, timeout=0):
            assert left(address)[0] == other.session.path
        with board, held(board, timeout=0):  # connected anew
            pass


def test_a_lock_whose_file_cannot_be_removed_closes_the_connection(
    address: SshAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(address) as board:
        with held(board, timeout=0):
            file = Path(address.folder, "lock", "held", board.session.name)
            file.unlink()
            file.mkdir()
        assert "could not release the lock on the board: rm: " in capsys.readouterr().err
        with pytest.raises(BoardUnreachableError, match="using it"):
            board.run(["true"], timeout=5)
        file.rmdir()


def test_a_session_does_not_wait_for_its_own_lock(address: SshAddress) -> None:
    with connect(address) as board:
        session = board.session
        for _ in range(2):
            take = take_command(session.folder, session.name, "me")
            assert board.run(take, timeout=20).stdout == "taken\n"
        with held(board, timeout=0):
            pass
        assert not list(Path(address.folder, "lock").glob("*/*"))


def test_without_a_connection_there_is_no_lock(address: SshAddress) -> None:
    board = connect(address)
    with pytest.raises(BoardUnreachableError), held(board, timeout=0):
        pass
