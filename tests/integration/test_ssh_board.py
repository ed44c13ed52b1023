"""A board over SSH, against OpenSSH's server on this machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from proxy import Proxy
from ssh_server import Server, free_port, make_key, running_server

from harness.boards.base import RunTimeoutError, TooMuchOutputError
from harness.boards.ssh import board as ssh
from harness.boards.ssh import session
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.host_keys import parse_host_key
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def board(server: Server) -> Iterator[SshBoard]:
    with connect(server.address) as board:
        yield board


def connect(address: SshAddress) -> SshBoard:
    return SshBoard("shelf", load_target("host"), address)


def test_arguments_are_passed_unchanged(board: SshBoard) -> None:
    words = ["it's", "a b", "$HOME", "`id`", '"', "*", "\\", "", "-n", "ü\n2"]
    result = board.run(["printf", "[%s]", *words], timeout=20)
    assert result.stdout == "".join(f"[{word}]" for word in words)
    assert (result.status, result.stderr) == (0, "")


def test_status_and_error_output_are_returned(board: SshBoard) -> None:
    result = board.run(["sh", "-c", "echo out; echo err >&2; exit 5"], timeout=20)
    assert (result.status, result.stdout, result.stderr) == (5, "out\n", "err\n")
    assert board.run(["sh", "-c", "kill -ABRT $$"], timeout=20).status == -6
    assert board.run(["/nowhere/mpe"], timeout=20).status == 127


def test_large_output_is_complete(board: SshBoard) -> None:
    result = board.run(["seq", "300000"], timeout=60)
    assert result.stdout.splitlines() == [str(number) for number in range(1, 300001)]


def test_characters_at_the_borders_of_pieces_are_complete(board: SshBoard) -> None:
    script = r"""yes 'ü€𝄞' | head -n 30000 | tr -d '\n'; printf '\377|\303'"""
    result = board.run(["sh", "-c", script], timeout=60)
    assert result.stdout == "ü€𝄞" * 30000 + "\ufffd|\ufffd"


def test_large_output_takes_little_processor_time(board: SshBoard) -> None:
    begun = time.process_time()
    script = "head -c 16000000 /dev/zero | tr '\\0' 5"
    result = board.run(["sh", "-c", script], timeout=120, most_output=1 << 24)
    assert result.stdout == "5" * 16_000_000
    assert time.process_time() - begun < 3  # 0.1; 20 where all of it is joined with every piece that comes


def test_small_packets_do_not_wait_for_each_other(board: SshBoard) -> None:
    opened = board._connection.transport.sock
    assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_connection_that_falls_silent_in_a_transfer_is_lost(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TRANSFER_SECONDS", 0.5)
    file = tmp_path / "file"
    file.write_bytes(os.urandom(1 << 20))
    proxy = Proxy(server.address.port)
    try:
        with connect(replace(server.address, port=proxy.port)) as board:
            proxy.stall(3)
            with pytest.raises(BoardUnreachableError, match="timed out"):
                board.fetch("/etc/hostname", file)
    finally:
        proxy.close()


def test_a_connection_that_ends_in_a_transfer_is_lost(server: Server, tmp_path: Path) -> None:
    proxy = Proxy(server.address.port)
    try:
        with connect(replace(server.address, port=proxy.port)) as board:
            proxy.stall(60)
            threading.Timer(0.5, proxy.cut).start()
            with pytest.raises(BoardUnreachableError, match=r"fetching .*: the connection was lost$"):
                board.fetch("/etc/hostname", tmp_path / "back")
    finally:
        proxy.close()


def test_a_connection_that_falls_silent_in_a_run_is_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(session, "UNANSWERED_SECONDS", 1.5)
    proxy = Proxy(server.address.port)
    try:
        with connect(replace(server.address, port=proxy.port)) as board:
            threading.Timer(0.5, proxy.stall, (60,)).start()
            started = time.monotonic()
            with pytest.raises(BoardUnreachableError, match=r"running sleep: no answer for 1\.5 s"):
                board.run(["sleep", "55"], timeout=50)
            assert time.monotonic() - started < 15
            with pytest.raises(BoardUnreachableError, match="running true: no answer"):
                board.run(["true"], timeout=5)
            started = time.monotonic()
        assert time.monotonic() - started < 15
    finally:
        proxy.close()


def test_a_missing_file_is_named(board: SshBoard, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        board.deploy({"cfg": tmp_path / "absent"})
    with pytest.raises(HarnessError, match="there is no file /nowhere"):
        board.fetch("/nowhere", tmp_path / "back")
    assert board.run(["true"], timeout=20).status == 0


def test_a_timeout_kills_the_program_and_its_children(board: SshBoard, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(RunTimeoutError, match=r"sh: did not end within 1 s on shelf"):
        board.run(["sh", "-c", f"sleep 60 & echo $$ $! >{pids}; wait"], timeout=1)
    for pid in pids.read_text().split():
        assert gone(int(pid))
    assert board.run(["true"], timeout=20).status == 0  # the connection is still good


def test_a_lost_connection_is_an_unreachable_board(server: Server) -> None:
    with connect(server.address) as board:
        parent = int(board.run(["sh", "-c", "ps -o ppid= -p $PPID"], timeout=20).stdout)  # sshd's session
        timer = threading.Timer(0.5, os.kill, (parent, 9))
        timer.start()
        with pytest.raises(BoardUnreachableError, match="running sleep"):
            board.run(["sleep", "30"], timeout=25)
        with pytest.raises(BoardUnreachableError):
            board.run(["true"], timeout=5)


def test_another_host_key_is_refused(server: Server, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = parse_host_key((tmp_path / "other.pub").read_text())
    with (
        pytest.raises(BoardUnreachableError, match="host key has changed") as error,
        connect(replace(server.address, host_key=other)),
    ):
        pass
    assert server.address.host_key is not None
    assert server.address.host_key.fingerprint in str(error.value)
    assert other.fingerprint in str(error.value)


def test_an_unknown_host_key_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("")
    address = replace(server.address, host_key=None, known_hosts=tmp_path / "known_hosts")
    with pytest.raises(BoardUnreachableError, match="is not known"), connect(address):
        pass
    assert (tmp_path / "known_hosts").read_text() == ""


def test_a_key_in_known_hosts_is_accepted(server: Server, tmp_path: Path) -> None:
    key = (server.folder / "host.pub").read_text()
    (tmp_path / "known_hosts").write_text(f"{server.address.known_as} {key}")
    address = replace(server.address, host_key=None, known_hosts=tmp_path / "known_hosts")
    with connect(address) as board:
        assert board.run(["true"], timeout=20).status == 0


def test_a_revoked_host_key_is_refused(server: Server, tmp_path: Path) -> None:
    key = (server.folder / "host.pub").read_text()
    (tmp_path / "known_hosts").write_text(f"@revoked * {key}{server.address.known_as} {key}")
    address = replace(server.address, host_key=None, known_hosts=tmp_path / "known_hosts")
    with pytest.raises(BoardUnreachableError, match="is revoked"), connect(address):
        pass


def test_a_failed_authentication_is_an_unreachable_board(server: Server, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    address = replace(server.address, key=tmp_path / "stranger")
    with pytest.raises(BoardUnreachableError, match="authentication failed"), connect(address):
        pass


def test_a_closed_port_is_an_unreachable_board(server: Server) -> None:
    address = replace(server.address, port=free_port())
    with (
        pytest.raises(
            BoardUnreachableError, match=rf"connecting: port {address.port} of 127.0.0.1: Connection refused"
        ),
        connect(address),
    ):
        pass


def test_an_invalid_host_name_is_an_unreachable_board(server: Server) -> None:
    with (
        pytest.raises(BoardUnreachableError, match="connecting"),
        connect(replace(server.address, host="a..b")),
    ):
        pass


def gone(process: int) -> bool:
    for _ in range(100):
        stat = Path(f"/proc/{process}/stat")
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_program_with_endless_output_is_killed(server: Server, stream: str) -> None:
    with connect(server.address) as board:
        words = ["sh", "-c", f"echo $$; exec yes 0123456789 >&{stream}"]
        with pytest.raises(
            TooMuchOutputError, match=r"sh: printed more than 1 MB on .*\n  Run it on the board"
        ):
            board.run(words, timeout=60, most_output=1 << 20)
        assert board.run(["echo", "still there"], timeout=60).stdout == "still there\n"
        listed = board.run(["ps", "-eo", "args"], timeout=60).stdout
        assert "yes 0123456789" not in listed.replace(" ".join(words), "")


def test_a_file_that_is_too_large_is_not_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "MOST_FETCHED", 2048)
    with connect(server.address) as board:
        (tmp_path / "there").write_bytes(bytes(2048))
        board.fetch(str(tmp_path / "there"), tmp_path / "here")
        assert (tmp_path / "here").stat().st_size == 2048
        (tmp_path / "there").write_bytes(bytes(2049))
        for path in (str(tmp_path / "there"), "/dev/zero"):
            with pytest.raises(HarnessError, match="it sends more than 2 kB"):
                board.fetch(path, tmp_path / "other")
        assert not (tmp_path / "other").exists()
        assert board.run(["echo", "still there"], timeout=60).stdout == "still there\n"
