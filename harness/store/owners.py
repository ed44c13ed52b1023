"""Owners of claims: each is a process with a locked file, so that claims of killed processes are recognised.

Every process that claims cells holds a lock on its own file in the results folder. The kernel releases the
lock when the process ends for any reason, also after SIGKILL. So a dead owner is recognised at once, without
heartbeats, time-outs or process numbers, which the kernel reuses.

Files are created, checked and removed only within transactions of the store. Transactions exclude each
other, so no process sees a file between its creation and its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from pathlib import Path


class Owner:
    """This process as an owner of claims, until it is closed or the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = uuid.uuid4().hex
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / self.name
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            os.write(self._handle, f"{os.getpid()}\n".encode())
        except OSError:  # for example, the disk is full
            self.close()
            raise

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._handle)


def is_alive(folder: Path, name: str) -> bool:
    """Whether an owner's process still runs."""
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two processes that check at the same time must not take each other for the owner.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def remove_dead(folder: Path) -> None:
    """Deletes the files of dead owners."""
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if not is_alive(folder, path.name):
                path.unlink(missing_ok=True)
