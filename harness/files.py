"""Reads users' files safely, and writes files atomically."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from harness.errors import ConfigurationError, file_error
from harness.temporary import temporary_file, temporary_folder

_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def kind_of(mode: int) -> str:
    """The kind of a file by its mode: "file", "folder", "named pipe", "socket" or "device"."""
    return _KINDS.get(stat.S_IFMT(mode), "file")


def open_regular(path: Path) -> io.BufferedReader:
    """Opens a file for reading. Raises OSError as `open` does.

    Raises ConfigurationError for a named pipe, a device or a socket: opening or reading one may block or have
    side effects.
    """
    _refuse_irregular(path, path.stat().st_mode)
    # The file may have been replaced after the check: with O_NONBLOCK a pipe opens without waiting.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _refuse_irregular(path, os.fstat(handle).st_mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, *, limit: int, what: str) -> bytes:
    """The content of a file of at most `limit` bytes; `what` names the expected content in messages.

    Raises ConfigurationError if it is larger or not a regular file, and OSError as `open` does.
    """
    with open_regular(path) as stream:
        # Memory for as much as the file has: a limit may be gigabytes.
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(min(limit, size) + 1)
        if size < len(data) <= limit:  # a file of /proc, or one that grows
            data += stream.read(limit + 1 - len(data))
    if len(data) > limit:
        raise ConfigurationError(
            f"{path}: larger than {limit >> 20} MiB: not {what}", hint="Check that it is the right file."
        )
    return data


def read_text(path: Path, *, limit: int, what: str) -> str:
    """The same as UTF-8 text. Also raises ConfigurationError if the file cannot be read."""
    try:
        data = read_regular(path, limit=limit, what=what)
    except OSError as error:
        raise file_error(path, error) from None
    return decoded(data, path, what=what)


def decoded(data: bytes, path: Path, *, what: str) -> str:
    """A file's bytes as text. Raises ConfigurationError with the line of bytes that are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path}:{line}: not UTF-8 text (byte {error.start})", hint=f"Check that it is {what}."
        ) from None


def _refuse_irregular(path: Path, mode: int) -> None:
    kind = kind_of(mode)
    if kind == "folder":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != "file":
        raise ConfigurationError(
            f"{path}: is a {kind}, not a regular file", hint="Copy its content to a regular file."
        )


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, with a temporary name beside `path`; it is renamed to `path` at the end.

    Raises ConfigurationError if the folder is missing or not writable.
    """
    try:
        # The temporary name does not contain the file's name, which may have the maximum length.
        with temporary_file(path.parent) as (temporary, file):
            yield file
            file.flush()
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # a temporary file starts out private
            temporary.replace(path)
    except OSError as error:
        raise file_error(path, error, doing="cannot be written") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file completely or not at all. Raises ConfigurationError as `written_whole`."""
    with written_whole(path) as file:
        file.write(data)


def write_together(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes all files or, if one cannot be written, none. Files of the same names are replaced. Names may
    have folders.

    Files appear in the folder when all of them are on the disk, the last one last. Raises ConfigurationError
    if the folder cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder}: is not a folder", hint="Name another folder with --out.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary_folder("files", within=folder) as private:
            for name, content in contents.items():
                (private / name).parent.mkdir(parents=True, exist_ok=True)
                (private / name).write_bytes(content)
            for name in contents:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (private / name).replace(folder / name)
    except OSError as error:
        raise file_error(folder, error, doing="cannot be written") from None
    return [folder / name for name in contents]
