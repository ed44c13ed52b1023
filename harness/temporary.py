"""Temporary files and folders that are removed soon after their process ends for any reason.

Each is locked by its process. The kernel releases the lock when the process ends, also after SIGKILL, so that
other processes recognise the remains. Every process removes remains from a folder before it creates its first
file or folder there, and from the system's folder for temporary files when it starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PREFIX, _SUFFIX = "harness-", ".tmp"
_NAME = re.compile(r"\.?harness-([a-z0-9-]+-)?[a-z0-9_]{8}\.tmp")  # the names that tempfile makes from these
_looked_into: set[Path] = set()
_guard = threading.Lock()


@contextlib.contextmanager
def temporary_folder(purpose: str, *, within: Path | None = None) -> Iterator[Path]:
    """A private folder that is removed at the end of the block, `within` a folder or in the system's folder
    for temporary files.

    Raises OSError if it cannot be created.
    """
    parent = within or Path(tempfile.gettempdir())
    remove_left(parent)
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=f"{_PREFIX}{purpose}-", suffix=_SUFFIX))
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if _lock(handle, folder):
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


@contextlib.contextmanager
def fresh_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """An empty folder that is renamed to `folder` at the end of the block, or removed after an exception.

    If another process has created `folder` meanwhile, that one stays. With `replace` it is removed; callers
    must hold a lock then. Raises OSError if the folder cannot be created or renamed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder("fresh", within=folder.parent) as private:
        fresh = private / folder.name
        fresh.mkdir()
        yield fresh
        if replace:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            fresh.rename(folder)
        except OSError:
            if replace or not folder.is_dir():
                raise


@contextlib.contextmanager
def temporary_file(within: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A private file in a folder, with its path. It is removed at the end of the block unless the block
    renames it.

    Raises OSError if it cannot be created.
    """
    remove_left(within)
    while True:
        handle, name = tempfile.mkstemp(dir=within, prefix=f".{_PREFIX}", suffix=_SUFFIX)
        path = Path(name)
        if _lock(handle, path):
            break
        os.close(handle)
    try:
        with os.fdopen(handle, "wb") as file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def remove_left(parent: Path | None = None) -> None:
    """Removes the remains of dead processes from a folder, by default the system's folder for temporary
    files. Works once for each folder. Ignores files that cannot be removed.
    """
    with contextlib.suppress(OSError):
        parent = parent or Path(tempfile.gettempdir())
        with _guard:
            if parent in _looked_into:
                return
            _looked_into.add(parent)
        with os.scandir(parent) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with contextlib.suppress(OSError):
                        _remove_unlocked(Path(entry.path))


def _remove_unlocked(path: Path) -> None:
    """Removes a file or private folder of this user that no process has locked."""
    status = path.lstat()
    folder = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    if status.st_uid != os.geteuid() or not (folder or stat.S_ISREG(status.st_mode)):
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(handle, path):
            return
        if folder:
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> bool:
    """Locks a new file or folder. False if another process has found it unlocked and removes it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody can lock it, so nobody removes it
        return True
    return _is_at(handle, path)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return path.lstat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False
