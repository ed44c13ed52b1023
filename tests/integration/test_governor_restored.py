"""The board itself puts its governors back, however a connection ends during a measured run.

OpenSSH's server on this machine, with a made-up /sys tree.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from fake_boards import folder_of, raspberry_pi
from proxy import Proxy
from ssh_server import Server, address_below, running_server
from started_processes import running

from harness.boards.paths import BoardPaths
from harness.boards.sensors.governor import held_governor
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.lock import held
from harness.config.sweep import Protocol
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError
from harness.measure.watched_run import run_watched


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def address(server: Server, tmp_path: Path) -> SshAddress:
    return address_below(server, tmp_path)


@pytest.fixture
def paths(tmp_path: Path) -> BoardPaths:
    return raspberry_pi(tmp_path)


def connect(address: SshAddress, paths: BoardPaths) -> SshBoard:
    return SshBoard("shelf", load_target("pi4"), address, sensors=paths)


def governors(paths: BoardPaths) -> set[str]:
    return {path.read_text().strip() for path in folder_of(paths).glob("sys/**/scaling_governor")}


def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come true; these run:\n" + processes()
        time.sleep(0.02)


def processes() -> str:
    words = ["ps", "-eo", "pid,ppid,pgid,stat,etimes,args"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def sessions(address: SshAddress) -> list[Path]:
    return [path for part in ("sessions", "ended") for path in Path(address.folder, part).glob("*")]


def measure(board: SshBoard) -> None:
    """Until the connection is lost."""
    with held(board, timeout=0):
        words, log = ["sleep", "60"], board.scratch("samples")
        run_watched(board, words, Protocol(cool_seconds=0), {}, log, reruns=0, cores=())


@pytest.mark.parametrize("how", ["cut", "closed"])
def test_governors_are_restored_after_a_lost_connection(
    address: SshAddress, paths: BoardPaths, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = Proxy(address.port)
    try:
        with connect(replace(address, port=proxy.port), paths) as board, ThreadPoolExecutor(1) as pool:
            measured = pool.submit(measure, board)
            wait_until(lambda: governors(paths) == {"performance"})
            if how == "cut":
                proxy.cut()
            else:  # as by Ctrl-C in another thread
                board.__exit__(None, None, None)
            with pytest.raises(BoardUnreachableError):
                measured.result()
    finally:
        proxy.close()
    wait_until(lambda: not sessions(address))  # the board ends them by itself, after its governors
    assert governors(paths) == {"ondemand"}
    assert "could not restore" not in capsys.readouterr().err


HARNESS = """
import sys
from pathlib import Path
from harness.boards.ssh.host_keys import parse_host_key
from harness.boards.paths import BoardPaths
from harness.boards.ssh.address import SshAddress
from test_governor_restored import connect, measure

port, user, key, host_key, folder, sys_folder, proc = sys.argv[1:]
host_key = parse_host_key(Path(host_key).read_text())
address = SshAddress(
    host="127.0.0.1", port=int(port), user=user, key=Path(key), host_key=host_key, folder=folder
)
with connect(address, BoardPaths(sys=sys_folder, proc=proc, vcgencmd="")) as board:
    measure(board)
"""


@contextlib.contextmanager
def start_harness(
    server: Server, address: SshAddress, paths: BoardPaths
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a measured run under way."""
    options = [str(address.port), address.user, str(address.key), str(server.folder / "host.pub")]
    with running(
        [sys.executable, "-c", HARNESS, *options, address.folder, paths.sys, paths.proc],
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        wait_until(lambda: governors(paths) == {"performance"}, seconds=30)
        yield process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_governors_are_restored_after_a_killed_harness(
    server: Server, address: SshAddress, paths: BoardPaths, number: signal.Signals
) -> None:
    with start_harness(server, address, paths) as process:
        process.send_signal(number)
        process.wait(60)
        wait_until(lambda: not sessions(address))
        assert governors(paths) == {"ondemand"}


def kill_with_its_keeper(server: Server, address: SshAddress, paths: BoardPaths) -> Path:
    """Kills a harness during a run, and what would tidy up after it there; its session."""
    with start_harness(server, address, paths) as process:
        (path,) = sessions(address)
        os.killpg(int(path.name.split("-")[0]), signal.SIGKILL)
        process.kill()
        process.wait()
    assert governors(paths) == {"performance"}
    return path


def test_the_next_session_restores_governors_after_a_killed_keeper(
    server: Server, address: SshAddress, paths: BoardPaths
) -> None:
    kill_with_its_keeper(server, address, paths)
    with connect(address, BoardPaths()) as board:
        assert governors(paths) == {"ondemand"}
        assert sessions(address) == [Path(board.session.path)]


def test_a_waiting_session_restores_governors_before_it_gets_the_lock(
    server: Server, address: SshAddress, paths: BoardPaths
) -> None:
    with connect(address, BoardPaths()) as board:
        with start_harness(server, address, paths) as process:
            (path,) = [path for path in sessions(address) if str(path) != board.session.path]
            os.killpg(int(path.name.split("-")[0]), signal.SIGKILL)
            process.kill()
            process.wait()
        with held(board, timeout=0):
            assert governors(paths) == {"ondemand"}


def test_governors_are_not_restored_after_a_restart_of_the_board(
    server: Server, address: SshAddress, paths: BoardPaths
) -> None:
    left = kill_with_its_keeper(server, address, paths)
    process, start, _ = left.name.split("-", 2)
    left.rename(left.with_name(f"{process}-{start}-6e1ed56a-0000-4000-8000-000000000001"))
    with connect(address, BoardPaths()) as board:
        assert sessions(address) == [Path(board.session.path)]
    assert governors(paths) == {"performance"}  # whatever it is now, it is the restarted board's own


def test_a_restore_script_that_hangs_does_not_block_the_session(
    address: SshAddress, paths: BoardPaths
) -> None:
    with connect(address, paths) as board, held(board, timeout=0), held_governor(board, paths):
        Path(board.restore_script).write_text("sleep 1000\n")
        board.__exit__(None, None, None)
        assert not sessions(address)
        assert not list(Path(address.folder, "lock").glob("*/*"))
    (left,) = Path(address.folder).glob("undo-*")
    assert left.read_text() == "sleep 1000\n"


def test_the_next_run_restores_governors_after_a_failure(
    address: SshAddress, paths: BoardPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    (governor, *_) = sorted(folder_of(paths).glob("sys/**/scaling_governor"))
    with connect(address, paths) as board, held(board, timeout=0), held_governor(board, paths):
        governor.unlink()
        governor.symlink_to("/proc/sys/kernel/random/uuid")  # cannot be written, even by root
    assert "could not restore the CPU governors; retried at the next run" in capsys.readouterr().err
    governor.unlink()
    governor.write_text("performance\n")
    with connect(address, paths) as board:
        with held(board, timeout=0), held_governor(board, paths):
            assert governors(paths) == {"performance"}
        assert governors(paths) == {"ondemand"}
    assert not list(Path(address.folder).glob("undo-*"))
    assert capsys.readouterr().err == ""
