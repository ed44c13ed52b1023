"""A board that is reached through a jump host: two of OpenSSH's servers on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from proxy import Proxy
from ssh_server import Server, free_port, make_key, running_server

from harness.boards.ssh import session
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.host_keys import parse_host_key
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """The jump host and the board behind it; each with keys of its own, for itself and for who logs in."""
    with (
        running_server(tmp_path_factory.mktemp("gate")) as gate,
        running_server(tmp_path_factory.mktemp("behind")) as board,
    ):
        yield gate, board


def through(gate: SshAddress, board: SshAddress) -> SshBoard:
    return SshBoard("shelf", load_target("host"), replace(board, jump=gate))


def test_the_board_is_the_one_behind_the_jump_host(servers: tuple[Server, Server], tmp_path: Path) -> None:
    gate, behind = servers
    file = tmp_path / "weights"
    file.write_bytes(b"through the gate")
    with through(gate.address, behind.address) as board:
        seen = board.run(["sh", "-c", 'echo "$SSH_CONNECTION"'], timeout=20).stdout
        path = Path(board.deploy({"weights": file})["weights"])
        jumped = board._connection.gateway
        assert jumped.is_connected
    assert seen.split()[-1] == str(behind.address.port)
    assert path.is_relative_to(behind.folder)
    assert path.read_bytes() == b"through the gate"
    assert not jumped.is_connected


def test_a_board_can_be_connected_again(servers: tuple[Server, Server]) -> None:
    gate, behind = servers
    board = through(gate.address, behind.address)
    for _ in range(2):
        with board:
            assert board.run(["true"], timeout=20).status == 0


@pytest.mark.parametrize("wrong", [0, 1])
def test_another_host_key_of_either_is_refused(
    servers: tuple[Server, Server], tmp_path: Path, wrong: int
) -> None:
    make_key(tmp_path / "other")
    other = parse_host_key((tmp_path / "other.pub").read_text())
    addresses = [server.address for server in servers]
    addresses[wrong] = replace(addresses[wrong], host_key=other)
    gate, behind = addresses
    said = (
        f"{gate.port}\\): its host key has changed" if wrong == 0 else r"through .*: its host key has changed"
    )
    with pytest.raises(BoardUnreachableError, match=said) as error, through(gate, behind):
        pass
    shown = servers[wrong].address.host_key
    assert shown is not None
    assert shown.fingerprint in str(error.value)
    assert other.fingerprint in str(error.value)


@pytest.mark.parametrize("unknown", [0, 1])
def test_an_unknown_host_key_of_either_is_refused(
    servers: tuple[Server, Server], tmp_path: Path, unknown: int
) -> None:
    (tmp_path / "known_hosts").write_text("")
    addresses = [server.address for server in servers]
    addresses[unknown] = replace(addresses[unknown], host_key=None, known_hosts=tmp_path / "known_hosts")
    named = str(addresses[unknown].port)
    with (
        pytest.raises(BoardUnreachableError, match=rf"\[127.0.0.1\]:{named}: .* is not known"),
        through(*addresses),
    ):
        pass


def test_a_failed_authentication_names_the_jump_host(servers: tuple[Server, Server], tmp_path: Path) -> None:
    gate, behind = servers
    make_key(tmp_path / "stranger")
    with (
        pytest.raises(BoardUnreachableError, match=rf"{gate.address.port}\): authentication failed"),
        through(replace(gate.address, key=tmp_path / "stranger"), behind.address),
    ):
        pass


def test_a_silent_jump_host_is_an_unreachable_board(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(session, "UNANSWERED_SECONDS", 1.5)
    gate, behind = servers
    proxy = Proxy(gate.address.port)
    try:
        with through(replace(gate.address, port=proxy.port), behind.address) as board:
            threading.Timer(0.5, proxy.stall, (60,)).start()
            started = time.monotonic()
            with pytest.raises(BoardUnreachableError, match="running sleep: no answer for"):
                board.run(["sleep", "55"], timeout=50)
        assert time.monotonic() - started < 20
    finally:
        proxy.close()


def test_a_board_unreachable_for_the_jump_host_is_unreachable(servers: tuple[Server, Server]) -> None:
    gate, behind = servers
    with (
        pytest.raises(BoardUnreachableError, match="connecting"),
        through(gate.address, replace(behind.address, port=free_port())),
    ):
        pass
