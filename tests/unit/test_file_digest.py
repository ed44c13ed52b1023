"""Hashes of files are those of what is in them now, also where that changed without a trace in its date."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import file_digest as module
from harness.errors import ConfigurationError
from harness.file_digest import file_digest


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as old at once: its hash is remembered."""
    monkeypatch.setattr(module, "_RECENT_NS", -1)
    path = tmp_path / "a file"
    path.write_bytes(b"one")
    return path


@given(content=st.binary())
def test_it_is_the_sha256_of_the_content(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "content"
    path.write_bytes(content)
    assert file_digest(path) == hashlib.sha256(content).hexdigest()


def test_a_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = file_digest(file)
    monkeypatch.delattr(hashlib, "file_digest")
    assert file_digest(file) == first == hashlib.sha256(b"one").hexdigest()


def test_a_file_of_the_same_size_and_date_in_its_place_is_read(file: Path, tmp_path: Path) -> None:
    first = file_digest(file)
    before = file.stat()
    other = tmp_path / "other"
    other.write_bytes(b"two")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files has coarse ticks
        shutil.copy2(other, file)
    after = file.stat()
    assert (after.st_size, after.st_ino, after.st_mtime_ns) == (
        before.st_size,
        before.st_ino,
        before.st_mtime_ns,
    )
    assert file_digest(file) == hashlib.sha256(b"two").hexdigest() != first


@pytest.mark.parametrize(("name", "why"), [("none", "No such file"), (".", "Is a directory")])
def test_an_unreadable_file_is_named(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{tmp_path}.*: cannot be read: {why}"):
        file_digest(tmp_path / name)
