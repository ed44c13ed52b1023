"""Files are written completely or not at all, and only regular files are read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from networks import write_sweep

from harness.config.darknet_cfg import read_cfg
from harness.config.document import read_document
from harness.config.sweep_file import read_sweep
from harness.errors import ConfigurationError
from harness.file_digest import file_digest
from harness.files import open_regular, read_regular, read_text, write_atomically, written_whole


def test_the_content_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_an_error_with_the_files_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone/a: cannot be written"):
        write_atomically(tmp_path / "gone" / "a", b"")


def test_a_folder_in_the_way_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_atomically(tmp_path / "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_interrupted_write_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with written_whole(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


# --- other files than regular ones


@pytest.fixture
def irregular(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """A named pipe without a writer, a link to it, a device that never ends, and a socket."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        yield {
            "named pipe": tmp_path / "pipe",
            "a link to one": tmp_path / "link",
            "device": Path("/dev/zero"),
            "socket": tmp_path / "socket",
        }


@pytest.mark.parametrize("kind", ["named pipe", "a link to one", "device", "socket"])
def test_an_irregular_file_is_refused_at_once(kind: str, irregular: dict[str, Path]) -> None:
    path = irregular[kind]
    named = kind.replace("a link to one", "named pipe")
    readers: list[Callable[[Path], object]] = [
        open_regular,
        lambda path: read_regular(path, limit=1 << 20, what="a test"),
        file_digest,
        read_document,
        read_cfg,
    ]
    for read in readers:
        with pytest.raises(ConfigurationError) as caught:
            read(path)
        assert caught.value.message == f"{path}: is a {named}, not a regular file"


@pytest.mark.parametrize("key", ["cfg", "weights", "dataset", "calibration", "labels"])
def test_a_sweep_file_that_names_a_pipe_is_refused_with_its_line(
    tmp_path: Path, irregular: dict[str, Path], key: str
) -> None:
    paths = {"cfg": "net.cfg", "weights": "net.weights"} | {key: "pipe"}
    lines = "".join(f"  {name}: {path}\n" for name, path in paths.items())
    sweep = write_sweep(tmp_path, f"policies: [fp32]\ntargets: [host]\nmodels:\n- name: net\n{lines}")
    with pytest.raises(ConfigurationError, match=r"yaml:\d: expected a .*, but .*pipe is a named pipe"):
        read_sweep(sweep)


def test_a_pipe_that_takes_the_place_of_a_file_is_refused(
    tmp_path: Path, irregular: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = Path(__file__).stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: regular)
    with pytest.raises(ConfigurationError, match="is a named pipe"):
        open_regular(irregular["named pipe"])


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    assert read_regular(path, limit=1 << 20, what="a test") == bytes(1 << 20)
    with path.open("ab") as stream:
        stream.write(b"1")
    with pytest.raises(ConfigurationError, match="larger than 1 MiB: not a test"):
        read_regular(path, limit=1 << 20, what="a test")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "gone")


def test_text_is_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\xc3\xa9")
    assert read_text(path, limit=99, what="a list") == "a\r\né"
    path.write_bytes(b"a\nb\xff")
    with pytest.raises(ConfigurationError, match=r"file:2: not UTF-8 text \(byte 3\)") as caught:
        read_text(path, limit=99, what="a list")
    assert caught.value.hint == "Check that it is a list."
