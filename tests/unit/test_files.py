"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import ConfigurationError
from harness.files import write_atomically, written_whole


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


def test_what_is_interrupted_leaves_the_file_as_it_was(tmp_path: Path) -> None:
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
