"""Who works on what, in a way that survives SIGKILL.

Every process that claims cells holds a lock on a file of its own in the results folder. The kernel drops
the lock the moment the process is gone, so a dead owner is known at once: no heartbeat, no time-out, and no
process number that another process may have got since.

A file is made and locked, and others are looked at and removed, within transactions of the store, which
exclude each other: nobody sees one that is not locked yet.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from pathlib import Path


class Owner:
    """This process as an owner of claims, for as long as it lives or until it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = uuid.uuid4().hex
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / self.name
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            os.write(self._handle, f"{os.getpid()}\n".encode())
        except OSError:  # as where the disk is full
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
        # Shared, so that two processes that look at once do not take each other for the owner.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def remove_dead(folder: Path) -> None:
    """Deletes the files of owners that are gone."""
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if not is_alive(folder, path.name):
                path.unlink(missing_ok=True)
