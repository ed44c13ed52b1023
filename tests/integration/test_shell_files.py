"""A board without SFTP, as Dropbear leaves one: files go through its shell."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from proxy import Proxy
from ssh_server import Server, address_below, running_server

from harness.boards.ssh import board as ssh
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.deployment import Deployment
from harness.boards.ssh.files import ShellFiles
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError, HarnessError


@pytest.fixture(scope="module", params=[None, "/nowhere/sftp-server"], ids=["no line", "no program"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd"), sftp=request.param) as server:
        yield server


@pytest.fixture
def address(server: Server, tmp_path: Path) -> SshAddress:
    return address_below(server, tmp_path)


def connect(address: SshAddress) -> SshBoard:
    return SshBoard("shelf", load_target("host"), address)


def test_files_are_deployed_and_fetched(
    address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, data = tmp_path / "it's mpe", tmp_path / "a b.npy"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    data.write_bytes(os.urandom(1 << 20))
    with connect(address) as board:
        assert isinstance(board.files(), ShellFiles)
        paths = board.deploy({"engine": program, "input": data})
        assert board.run([paths["engine"]], timeout=20).stdout == "ran\n"
        board.fetch(paths["input"], tmp_path / "back")
        with pytest.raises(HarnessError, match="there is no file /nowhere"):
            board.fetch("/nowhere", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data.read_bytes()
    assert stat.S_IMODE(Path(paths["engine"]).stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(paths["input"]).stat().st_mode) == 0o600
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(address.folder).rglob("*"))
    # What was sent has its mark: it is not even hashed again.
    monkeypatch.setattr(Deployment, "_send", lambda *_: pytest.fail("sent again"))
    monkeypatch.setattr(ShellFiles, "finish", lambda *_, **__: pytest.fail("marked again"))
    with connect(address) as board:
        assert board.deploy({"engine": program, "input": data}) == paths


def test_an_interrupted_upload_is_resumed(
    address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(8 << 20))
    sent: list[int] = []
    original = ShellFiles.write

    def write(self: ShellFiles, path: str, pieces: Iterable[bytes], *, start: int) -> None:
        def watched() -> Iterator[bytes]:
            for number, piece in enumerate(pieces):
                if number == 20 and start == 0:
                    board.lose()
                sent.append(len(piece))
                yield piece

        original(self, path, watched(), start=start)

    monkeypatch.setattr(ShellFiles, "write", write)
    with connect(address) as board, pytest.raises(BoardUnreachableError, match="sending large"):
        board.deploy({"large": file})
    until = time.monotonic() + 60
    while any(path for part in ("sessions", "ended") for path in Path(address.folder, part).iterdir()):
        assert time.monotonic() < until, "the session on the board has not ended"
        time.sleep(0.05)
    (partial,) = Path(address.folder, "partial").iterdir()
    arrived = partial.stat().st_size
    assert arrived > 1 << 20
    sent.clear()
    with connect(address) as board:
        path = board.deploy({"large": file})["large"]
    assert Path(path).read_bytes() == file.read_bytes()
    assert sum(sent) == file.stat().st_size - arrived


def test_a_full_disk_is_named(address: SshAddress) -> None:
    with connect(address) as board:
        pieces = (bytes(1 << 18) for _ in range(100))
        with (
            pytest.raises(
                HarnessError, match=r"sending it: the board reported an error: .*No space left"
            ) as error,
            board.reachable("sending it"),
        ):
            board.files().write("/dev/full", pieces, start=0)
        assert not isinstance(error.value, BoardUnreachableError)
        assert board.run(["true"], timeout=20).status == 0


def test_a_connection_that_falls_silent_in_a_transfer_is_lost(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "TRANSFER_SECONDS", 0.5)
    proxy = Proxy(server.address.port)
    try:
        with connect(replace(server.address, port=proxy.port)) as board:
            proxy.stall(3)
            with pytest.raises(BoardUnreachableError, match="timed out"):
                board.fetch("/etc/hostname", tmp_path / "back")
    finally:
        proxy.close()
