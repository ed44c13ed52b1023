"""A board over SSH, against OpenSSH's server on this machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ssh_server import Server, free_port, make_key, running_server

from harness.boards.board import RunTimeoutError
from harness.boards.host_keys import parse_host_key
from harness.boards.ssh import SshAddress, SshBoard
from harness.configuration.targets import load_target
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


def test_a_program_runs_with_its_words_unchanged(board: SshBoard) -> None:
    words = ["it's", "a b", "$HOME", "`id`", '"', "*", "\\", "", "-n", "ü\n2"]
    result = board.run(["printf", "[%s]", *words], timeout=20)
    assert result.stdout == "".join(f"[{word}]" for word in words)
    assert (result.status, result.stderr) == (0, "")


def test_status_and_messages_come_back(board: SshBoard) -> None:
    result = board.run(["sh", "-c", "echo out; echo err >&2; exit 5"], timeout=20)
    assert (result.status, result.stdout, result.stderr) == (5, "out\n", "err\n")
    assert board.run(["sh", "-c", "kill -ABRT $$"], timeout=20).status == -6
    assert board.run(["/nowhere/mpe"], timeout=20).status == 127


def test_much_output_comes_back_whole(board: SshBoard) -> None:
    result = board.run(["seq", "300000"], timeout=60)
    assert result.stdout.splitlines() == [str(number) for number in range(1, 300001)]


def test_files_are_stored_by_content_and_keep_their_mode(board: SshBoard, tmp_path: Path) -> None:
    program, data = tmp_path / "it's mpe", tmp_path / "a b.npy"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    data.write_bytes(bytes(range(256)) * 1000)
    paths = board.deploy({"engine": program, "input": data})
    assert board.run([paths["engine"]], timeout=20).stdout == "ran\n"
    assert Path(paths["input"]).read_bytes() == data.read_bytes()
    assert not os.access(paths["input"], os.X_OK)
    board.fetch(paths["input"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data.read_bytes()


def test_a_large_file_shows_how_it_gets_on(
    board: SshBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"x")
    large.write_bytes(bytes(9 << 20))
    board.deploy({"small": small})
    assert capsys.readouterr().err == ""
    path = board.deploy({"large": large})["large"]
    assert "sending large to shelf, MB ..." in capsys.readouterr().err
    assert Path(path).stat().st_size == 9 << 20


def test_what_is_there_is_not_sent_again(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"seen before")
    with connect(server.address) as board:
        path = Path(board.deploy({"weights": file})["weights"])
    first = path.stat().st_ino
    with connect(server.address) as board:
        assert board.deploy({"weights": file}) == {"weights": str(path)}
    assert path.stat().st_ino == first


def test_what_is_damaged_there_is_sent_again(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"to be damaged")
    with connect(server.address) as board:
        path = Path(board.deploy({"weights": file})["weights"])
    path.write_bytes(b"to be dXmaged")
    with connect(server.address) as board:
        board.deploy({"weights": file})
    assert path.read_bytes() == b"to be damaged"


def test_what_arrives_damaged_is_an_error_and_leaves_nothing(
    board: SshBoard, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paramiko import SFTPClient

    original = SFTPClient.putfo

    def damaging(self: SFTPClient, stream: object, path: str, **options: object) -> object:
        result = original(self, stream, path, **options)  # type: ignore[arg-type]
        Path(path).write_bytes(b"x")
        return result

    monkeypatch.setattr(SFTPClient, "putfo", damaging)
    file = tmp_path / "weights"
    file.write_bytes(b"never arrives")
    with pytest.raises(HarnessError, match="weights arrived damaged"):
        board.deploy({"weights": file})
    assert not list((server.folder / "board").rglob("*.part"))
    monkeypatch.undo()
    assert Path(board.deploy({"weights": file})["weights"]).read_bytes() == b"never arrives"


def test_a_file_that_is_not_there_is_named(board: SshBoard, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        board.deploy({"cfg": tmp_path / "absent"})
    with pytest.raises(HarnessError, match="there is no file /nowhere"):
        board.fetch("/nowhere", tmp_path / "back")
    assert board.run(["true"], timeout=20).status == 0


def test_out_of_time_the_program_and_its_children_are_killed(board: SshBoard, tmp_path: Path) -> None:
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


def test_a_user_who_is_not_let_in_is_an_unreachable_board(server: Server, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    address = replace(server.address, key=tmp_path / "stranger")
    with pytest.raises(BoardUnreachableError, match="does not let us in"), connect(address):
        pass


def test_a_port_where_nothing_listens_is_an_unreachable_board(server: Server) -> None:
    address = replace(server.address, port=free_port())
    with pytest.raises(BoardUnreachableError, match="connecting"), connect(address):
        pass


def test_a_host_that_is_no_name_is_an_unreachable_board(server: Server) -> None:
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
