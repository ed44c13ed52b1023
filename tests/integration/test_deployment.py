"""Deployment to a board, against OpenSSH's server on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ssh_server import Server, address_below, running_server

from harness import file_digest
from harness.boards.ssh import cache_eviction, deployment
from harness.boards.ssh.address import SshAddress
from harness.boards.ssh.board import SshBoard
from harness.boards.ssh.lock import held
from harness.config.targets import load_target
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def address(server: Server, tmp_path: Path) -> SshAddress:
    return address_below(server, tmp_path)


@pytest.fixture
def board(address: SshAddress) -> Iterator[SshBoard]:
    with connect(address) as board:
        yield board


def connect(address: SshAddress) -> SshBoard:
    return SshBoard("shelf", load_target("host"), address)


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


def test_a_large_file_shows_progress(
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


def test_a_present_file_is_not_sent_again(address: SshAddress, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"seen before")
    with connect(address) as board:
        path = Path(board.deploy({"weights": file})["weights"])
    first = path.stat().st_ino
    with connect(address) as board:
        assert board.deploy({"weights": file}) == {"weights": str(path)}
    assert path.stat().st_ino == first


def test_a_damaged_file_is_sent_again(address: SshAddress, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"to be damaged")
    with connect(address) as board:
        path = Path(board.deploy({"weights": file})["weights"])
    path.write_bytes(b"to be dXmaged")
    with connect(address) as board:
        board.deploy({"weights": file})
    assert path.read_bytes() == b"to be damaged"


def test_only_modified_files_are_hashed_again(
    address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = watch_hashing(monkeypatch)
    files = {name: tmp_path / name for name in ("first", "second", "third")}
    for name, file in files.items():
        file.write_text(name)
    with connect(address) as board:
        paths = board.deploy(files)
    hashed.clear()
    os.utime(paths["second"])
    os.truncate(paths["third"], 3)
    with connect(address) as board:
        board.deploy(files)
    assert hashed == [paths["second"], f"{board_uploads(hashed[1])}/{Path(paths['third']).parent.name}"]
    assert Path(paths["third"]).read_text() == "third"
    hashed.clear()
    with connect(address) as board:
        board.deploy(files)
    assert not hashed


def board_uploads(path: str) -> str:
    return str(Path(path).parent)


def watch_hashing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that boards are asked to hash from now on."""
    hashed: list[str] = []
    original = deployment.Deployment._hashes

    def watched(self: deployment.Deployment, paths: list[str]) -> dict[str, str]:
        hashed.extend(paths)
        return original(self, paths)

    monkeypatch.setattr(deployment.Deployment, "_hashes", watched)
    return hashed


def test_all_files_are_private(board: SshBoard, tmp_path: Path, address: SshAddress) -> None:
    program, data = tmp_path / "program", tmp_path / "data"
    for file, mode in ((program, 0o755), (data, 0o644)):
        file.write_text(file.name)
        file.chmod(mode)
    paths = board.deploy({"program": program, "data": data})
    assert Path(paths["program"]).stat().st_mode & 0o777 == 0o700
    assert Path(paths["data"]).stat().st_mode & 0o777 == 0o600
    folder = Path(address.folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder / "objects").rglob("*"))


def test_a_folder_readable_by_others_is_made_private(address: SshAddress) -> None:
    Path(address.folder).mkdir(mode=0o755)
    with connect(address):
        assert Path(address.folder).stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(address: SshAddress) -> None:
    Path(address.folder).mkdir(mode=0o777)
    os.chown(address.folder, 65534, 65534)
    with pytest.raises(HarnessError, match=r"shelf: the folder .* belongs to another user"), connect(address):
        pass
    assert not list(Path(address.folder).iterdir())


def test_a_folder_that_cannot_be_made_is_an_error(address: SshAddress) -> None:
    Path(address.folder).write_text("a file")
    with pytest.raises(HarnessError, match="cannot be used: mkdir"), connect(address):
        pass
    long = "/".join(["a" * 200] * 25)
    too_long = replace(address, folder=f"{address.folder} long/{long}")
    with pytest.raises(HarnessError, match=r"cannot be used: .*: File name too long"), connect(too_long):
        pass


def test_a_program_that_was_data_before_can_be_run(address: SshAddress, tmp_path: Path) -> None:
    file = tmp_path / "tool"
    file.write_text("#!/bin/sh\necho ran\n")
    with connect(address) as board:
        board.deploy({"tool": file})
    file.chmod(0o755)
    with connect(address) as board:
        assert board.run([board.deploy({"tool": file})["tool"]], timeout=20).stdout == "ran\n"


def test_a_damaged_transfer_is_an_error_and_leaves_nothing(
    board: SshBoard, address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_uploads(monkeypatch, lambda path: path.write_bytes(b"n" * 13))
    file = tmp_path / "weights"
    file.write_bytes(b"never arrives")
    with pytest.raises(HarnessError, match="shelf: weights is damaged after the transfer"):
        board.deploy({"weights": file})
    assert not uploads(address)
    monkeypatch.undo()
    assert Path(board.deploy({"weights": file})["weights"]).read_bytes() == b"never arrives"


def damage_uploads(monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]) -> None:
    """Has something done to every upload before the board hashes it."""
    original = deployment.Deployment._hashes

    def damaged(self: deployment.Deployment, paths: list[str]) -> dict[str, str]:
        for path in paths:
            if "/uploads/" in path:
                damage(Path(path))
        return original(self, paths)

    monkeypatch.setattr(deployment.Deployment, "_hashes", damaged)


def uploads(address: SshAddress) -> list[Path]:
    folder = Path(address.folder)
    return [*folder.glob("sessions/*/uploads/*"), *folder.glob("partial/*")]


def test_a_file_that_changes_during_the_transfer_is_named(
    board: SshBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"before")
    original = deployment.Deployment._send

    def changing(self: deployment.Deployment, wanted: Sequence[deployment._File]) -> None:
        file.write_bytes(b"afterwards")
        original(self, wanted)

    monkeypatch.setattr(deployment.Deployment, "_send", changing)
    with pytest.raises(ConfigurationError, match="weights: was changed while it was sent to shelf"):
        board.deploy({"weights": file})


def cut_upload(address: SshAddress, file: Path, monkeypatch: pytest.MonkeyPatch, *, at: int) -> Path:
    """Cuts the connection when so many bytes were sent; where what arrived is kept then."""
    from paramiko import SFTPFile

    original = SFTPFile.write
    with connect(address) as board:

        def cutting(self: SFTPFile, data: bytes) -> None:
            original(self, data)
            if self.tell() >= at:
                self.sftp.stat(".")  # the answer comes after all was written
                board._connection.transport.close()

        monkeypatch.setattr(SFTPFile, "write", cutting)
        with pytest.raises(BoardUnreachableError, match="sending"):
            board.deploy({"file": file})
    monkeypatch.setattr(SFTPFile, "write", original)
    with connect(address):
        (partial,) = Path(address.folder).glob("partial/*")
    return partial


@pytest.fixture
def large(tmp_path: Path) -> Path:
    file = tmp_path / "large file's $(name)"
    file.write_bytes(os.urandom(4 << 20))
    return file


def test_an_interrupted_upload_is_resumed(
    address: SshAddress, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = cut_upload(address, large, monkeypatch, at=3 << 20)
    assert partial.stat().st_size >= 3 << 20
    inode, sent = partial.stat().st_ino, count_sent(monkeypatch)
    with connect(address) as board:
        path = Path(board.deploy({"large": large})["large"])
    assert path.read_bytes() == large.read_bytes()
    assert path.stat().st_ino == inode
    assert sum(sent) <= 1 << 20
    assert not uploads(address)


def count_sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from paramiko import SFTPFile

    sent: list[int] = []
    original = SFTPFile.write

    def counting(self: SFTPFile, data: bytes) -> None:
        sent.append(len(data))
        original(self, data)

    monkeypatch.setattr(SFTPFile, "write", counting)
    return sent


@pytest.mark.parametrize("damage", ["changed", "longer", "whole but changed"])
def test_a_damaged_part_is_sent_again_from_the_start(
    address: SshAddress, large: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    partial = cut_upload(address, large, monkeypatch, at=1 << 20)
    size = {"changed": partial.stat().st_size, "longer": 5 << 20, "whole but changed": 4 << 20}[damage]
    partial.write_bytes(bytes(size))
    with connect(address) as board:
        path = Path(board.deploy({"large": large})["large"])
    assert path.read_bytes() == large.read_bytes()
    assert not uploads(address)


def test_two_sessions_can_send_the_same_file(
    address: SshAddress, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_upload(address, large, monkeypatch, at=1 << 20)
    original = deployment.Deployment._upload
    with connect(address) as first, connect(address) as second:

        def overtaken(self: deployment.Deployment, file: deployment._File, start: int) -> None:
            monkeypatch.setattr(deployment.Deployment, "_upload", original)
            second.deploy({"large": large})
            original(self, file, start)

        monkeypatch.setattr(deployment.Deployment, "_upload", overtaken)
        path = first.deploy({"large": large})["large"]
        assert Path(path).read_bytes() == large.read_bytes()
    assert not uploads(address)


def test_the_least_recently_used_file_is_evicted_first(address: SshAddress, tmp_path: Path) -> None:
    address = replace(address, cache_limit_bytes=1 << 20)
    names = ["a", "b", "c", "d"]
    files = {name: tmp_path / name for name in names}
    for name in names:
        files[name].write_bytes(name.encode() * 300_000)
    paths: dict[str, str] = {}
    for name in ["a", "b", "c"]:
        with connect(address) as board:
            paths |= board.deploy({name: files[name]})
        time.sleep(0.02)
    with connect(address) as board:
        board.deploy({"a": files["a"]})
        time.sleep(0.02)
        paths |= board.deploy({"d": files["d"]})
    assert [name for name in names if Path(paths[name]).exists()] == ["a", "c", "d"]
    assert not Path(paths["b"]).parent.exists()


def test_files_from_the_future_are_not_newer_than_the_others(address: SshAddress, tmp_path: Path) -> None:
    address = replace(address, cache_limit_bytes=1 << 20)
    names = list("abcde")
    paths: dict[str, Path] = {}
    for name in names:
        file = tmp_path / name
        file.write_bytes(name.encode() * 300_000)
        with connect(address) as board:
            paths[name] = Path(board.deploy({name: file})[name])
        if name == "b":
            for path in (paths["a"], paths["b"]):
                os.utime(path.parent, (time.time() + 2 * 365 * 86400,) * 2)
        time.sleep(0.02)
    assert [name for name in names if paths[name].exists()] == ["c", "d", "e"]


def test_files_in_use_are_not_evicted(address: SshAddress, tmp_path: Path) -> None:
    address = replace(address, cache_limit_bytes=1 << 20)
    files = {str(number): tmp_path / str(number) for number in range(8)}
    for name, file in files.items():
        file.write_bytes(name.encode() * 300_000)
    with connect(address) as other:
        kept = dict(other.deploy({"0": files["0"]}))
        with connect(address) as board:
            for name in list(files)[1:]:
                kept |= board.deploy({name: files[name]})
                time.sleep(0.02)
        assert all(Path(path).exists() for path in kept.values())
        with connect(address) as board:
            file = tmp_path / "another"
            file.write_bytes(b"another" * 10000)
            kept |= board.deploy({"another": file})
            left = [name for name, path in kept.items() if Path(path).exists()]
    assert left == ["0", "6", "7", "another"]


def test_interrupted_uploads_are_evicted_too(
    address: SshAddress, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = cut_upload(address, large, monkeypatch, at=3 << 20)
    small = tmp_path / "small"
    small.write_bytes(b"small")
    with connect(replace(address, cache_limit_bytes=1 << 20)) as board:
        board.deploy({"small": small})
    assert not partial.exists()


def test_small_files_need_no_new_check_of_free_space(
    board: SshBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = cache_eviction.make_room

    def counting(board: SshBoard, size: int) -> int:
        asked.append(size)
        return original(board, size)

    monkeypatch.setattr(deployment, "make_room", counting)
    monkeypatch.setattr(deployment, "_UNASKED", 1000)
    for name, size in (("a", 5000), ("b", 600), ("c", 400), ("d", 1)):
        file = tmp_path / name
        file.write_bytes(name.encode() * size)
        board.deploy({name: file})
    assert asked == [5000, 1]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "tiny disk"
    folder.mkdir()
    if os.system(f"mount -t tmpfs -o size=3m none '{folder}' 2>/dev/null") != 0:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    os.system(f"umount '{folder}'")


def test_files_are_not_sent_to_a_full_disk(
    address: SshAddress, tiny: Path, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, sent = tmp_path / "old", count_sent(monkeypatch)
    old.write_bytes(bytes(2 << 20))
    address = replace(address, folder=str(tiny / "harness"))
    with connect(address) as board:
        board.deploy({"old": old})
    sent.clear()
    with connect(address) as board:
        with pytest.raises(
            HarnessError, match=r"not enough free space in .*/tiny disk/harness: 4\.2 MB needed"
        ):
            board.deploy({"large": large})
        large.write_bytes(os.urandom(2 << 20))  # has room once the old one is removed
        assert not sent
        assert Path(board.deploy({"large": large})["large"]).read_bytes() == large.read_bytes()


def test_a_disk_that_fills_up_during_the_transfer_is_named(
    address: SshAddress, tiny: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = cache_eviction.make_room
    monkeypatch.setattr(deployment, "make_room", lambda *_, **__: 1 << 40)
    upload = deployment.Deployment._upload

    def looking(self: deployment.Deployment, file: deployment._File, start: int) -> None:
        monkeypatch.setattr(deployment, "make_room", original)
        upload(self, file, start)

    monkeypatch.setattr(deployment.Deployment, "_upload", looking)
    address = replace(address, folder=str(tiny / "harness"))
    with connect(address) as board, pytest.raises(HarnessError, match="not enough free space") as error:
        board.deploy({"large": large})
    assert not isinstance(error.value, BoardUnreachableError)
    assert not uploads(address)
    assert shutil.disk_usage(tiny).free > 2 << 20


def test_a_full_disk_is_the_reason_why_the_lock_cannot_be_taken(address: SshAddress, tiny: Path) -> None:
    with connect(replace(address, folder=str(tiny / "harness"))) as board:
        fill = tiny / "fill"
        with contextlib.suppress(OSError), fill.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        with pytest.raises(HarnessError, match="not enough free space"), held(board, timeout=1):
            pass
        fill.unlink()
        with held(board, timeout=1):
            pass


def test_an_unchanged_data_set_is_neither_sent_nor_hashed_again(
    address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long that takes is measured by tests/benchmarks/redeployment.py."""
    monkeypatch.setattr(file_digest, "_RECENT_NS", -1)  # what was changed a moment ago is read again
    files = {str(number): tmp_path / str(number) for number in range(60)}
    for file in files.values():
        file.write_bytes(os.urandom(1 << 10))
    with connect(address) as board:
        paths = board.deploy(files)
    sent, hashed = count_sent(monkeypatch), watch_hashing(monkeypatch)
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    with connect(address) as board:
        monkeypatch.setattr(board, "files", lambda: pytest.fail("asked for one file at a time"))
        assert board.deploy(files) == paths
        assert board.deploy(files) == paths
    assert not sent
    assert not hashed


def test_files_are_hashed_if_stat_does_not_support_formats(
    address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "_LOOK", deployment._LOOK.replace("stat -c", "false -c"))
    files = {name: tmp_path / name for name in ("whole", "cut")}
    for name, file in files.items():
        file.write_text(name)
    with connect(address) as board:
        paths = board.deploy(files)
    os.truncate(paths["cut"], 1)
    hashed = watch_hashing(monkeypatch)
    with connect(address) as board:
        assert board.deploy(files) == paths
    assert hashed[:2] == [paths["whole"], paths["cut"]]
    assert [Path(path).read_text() for path in paths.values()] == ["whole", "cut"]


def test_a_file_that_another_session_removes_is_sent(
    address: SshAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"removed")
    with connect(address) as board:
        path = Path(board.deploy({"weights": file})["weights"])
    late = 'rm -r -- "$@"; stat -c'
    monkeypatch.setattr(deployment, "_LOOK", deployment._LOOK.replace("stat -c", late))
    with connect(address) as board:
        board.deploy({"weights": file})
        assert [use.name for use in Path(address.folder).glob("sessions/*/uses/*")] == [path.parent.name]
    assert path.read_bytes() == b"removed"
