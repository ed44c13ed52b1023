"""Emulated boards, with real containers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from started_processes import running

from harness.boards.base import RunTimeoutError
from harness.boards.emulated import EmulatedBoard
from harness.boards.ssh.board import SshBoard
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError
from harness.images.availability import emulation_missing
from harness.images.container import OWNER_LABEL, remove_stale
from harness.prediction.profile import read_profile
from harness.qemu.profiler import profiling_missing

pytestmark = pytest.mark.emulation


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    if missing := emulation_missing():
        pytest.skip("; ".join(missing))
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def board(engine: docker.DockerClient) -> Iterator[EmulatedBoard]:
    with EmulatedBoard(load_target("pi4")) as board:
        yield board


def containers(engine: docker.DockerClient, board: EmulatedBoard) -> list[Any]:
    return engine.containers.list(
        all=True, filters={"label": OWNER_LABEL, "name": f"^{board.container_name}$"}
    )


def test_it_is_an_arm64_machine_without_privileges(board: EmulatedBoard) -> None:
    result = board.run(["sh", "-c", "uname -m; id -u; echo $QEMU_CPU"], timeout=30)
    assert result.stdout.split() == ["aarch64", "1000", "cortex-a72"]
    assert board.emulated


def test_it_is_reachable_from_this_machine_only(engine: docker.DockerClient, board: EmulatedBoard) -> None:
    (container,) = containers(engine, board)
    bindings = [binding for port in container.ports.values() for binding in port or []]
    assert {binding["HostIp"] for binding in bindings} == {"127.0.0.1"}


def test_the_core_has_its_own_instructions_only(board: EmulatedBoard, marked: Path) -> None:
    path = board.deploy({"engine": marked})["engine"]
    assert board.run([path, "dot"], timeout=30).status == -signal.SIGILL
    with EmulatedBoard(load_target("pi5")) as newer:
        path = newer.deploy({"engine": marked})["engine"]
        assert newer.run([path, "dot"], timeout=30).stdout == "done\n"


def test_instructions_between_the_marks_are_counted(
    board: EmulatedBoard, marked: Path, tmp_path: Path
) -> None:
    if missing := profiling_missing():
        pytest.skip("; ".join(missing))
    path = board.deploy({"engine": marked})["engine"]
    counts = []
    for rounds in ("1000", "1000", "51000"):
        assert board.profile([path, rounds], tmp_path / "profile", timeout=60)
        counts.append(read_profile(tmp_path / "profile").instructions)
    assert counts[0] == counts[1]
    assert counts[2] - counts[0] == 2 * 50000  # two instructions a round
    assert 0 < counts[0] - 2 * 1000 < 20  # those that make the system calls


def test_out_of_time_everything_is_killed(board: EmulatedBoard) -> None:
    with pytest.raises(RunTimeoutError):
        board.run(["sh", "-c", "sleep 321 & sleep 321"], timeout=2)
    # Whole words: numbers of processes and their starts are among the words of what harness runs there.
    listing = "for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$file; echo; done 2>/dev/null"
    for _ in range(20):
        if "sleep 321 " not in board.run(["sh", "-c", listing], timeout=30).stdout:
            return
        time.sleep(0.2)
    pytest.fail("sleep is still running")


def test_another_board_in_its_place_is_refused(board: EmulatedBoard) -> None:
    with EmulatedBoard(load_target("pi4")) as other:
        assert board.address is not None
        assert other.address is not None
        address = replace(other.address, host_key=board.address.host_key)
        with pytest.raises(BoardUnreachableError, match="host key has changed"), connect(address):
            pass
        address = replace(other.address, host_key=None)
        with pytest.raises(BoardUnreachableError, match="is not known"), connect(address):
            pass


def connect(address: Any) -> SshBoard:
    return SshBoard("other", load_target("pi4"), address)


def test_a_board_that_dies_in_a_run_is_unreachable_and_leaves_nothing(engine: docker.DockerClient) -> None:
    with EmulatedBoard(load_target("pi4")) as board:
        (container,) = containers(engine, board)
        timer = threading.Timer(2, container.kill)
        timer.start()
        started = time.monotonic()
        with pytest.raises(BoardUnreachableError, match="running sleep"):
            board.run(["sleep", "60"], timeout=50)
        assert time.monotonic() - started < 20
        with pytest.raises(BoardUnreachableError):
            board.deploy({"file": Path(__file__)})
    assert not containers(engine, board)


def test_the_container_is_removed_after_an_error(engine: docker.DockerClient) -> None:
    board = EmulatedBoard(load_target("pi4"))
    with pytest.raises(ZeroDivisionError), board:
        raise ZeroDivisionError
    assert not containers(engine, board)


def test_the_container_is_removed_if_the_server_does_not_start(
    engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.boards import emulated

    original = emulated.board_keys
    monkeypatch.setattr(emulated, "board_keys", lambda _, *rest: original(b"no key", *rest))
    board = EmulatedBoard(load_target("pi4"))
    with pytest.raises(BoardUnreachableError, match="no hostkeys available"), board:
        pass
    assert not containers(engine, board)


OPEN_AND_WAIT = """
from harness.boards.emulated import EmulatedBoard
from harness.config.targets import load_target
with EmulatedBoard(load_target("pi4")) as board:
    print(board.container_name, flush=True)
    input()
"""


def test_containers_of_a_killed_harness_are_removed(
    engine: docker.DockerClient, board: EmulatedBoard
) -> None:
    with running(
        [sys.executable, "-c", OPEN_AND_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert name
        process.kill()
    assert engine.containers.get(name).status == "running"
    assert remove_stale(engine) >= 1
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(name)
    assert board.run(["true"], timeout=30).status == 0  # that of a living harness stays
