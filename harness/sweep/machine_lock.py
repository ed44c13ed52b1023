"""Keeps this machine quiet while it measures, and a board to one measurement at a time.

Measurements here run alone, other heavy work shares the rest of the time. The locks are files that every
harness process of this user locks; the kernel releases them when a process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.resources import cache_directory

POLL_SECONDS = 0.05


class Interrupted(Exception):  # noqa: N818 - it is no error
    """The sweep was asked to stop while it waited."""


def lock_file(name: str) -> Path:
    return cache_directory() / "locks" / name


@contextlib.contextmanager
def measuring(stop: threading.Event | None = None) -> Iterator[None]:
    """Waits until nothing else of harness loads this machine, and keeps it so."""
    with _locked("machine", fcntl.LOCK_EX, stop):
        yield


@contextlib.contextmanager
def loading(stop: threading.Event | None = None) -> Iterator[None]:
    """Work that must not run while something is measured here."""
    with _locked("machine", fcntl.LOCK_SH, stop):
        yield


@contextlib.contextmanager
def using(board: str, stop: threading.Event | None = None) -> Iterator[None]:
    """A measurement on a board: no other one runs there."""
    # Its name may hold a slash, or be longer than a file's.
    name = hashlib.sha256(board.encode()).hexdigest()[:32]
    with _locked(f"board-{name}", fcntl.LOCK_EX, stop):
        yield


@contextlib.contextmanager
def _locked(name: str, mode: int, stop: threading.Event | None) -> Iterator[None]:
    handle = _open(lock_file(name))
    try:
        _wait(lambda: fcntl.flock(handle, mode | fcntl.LOCK_NB), stop or threading.Event())
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)


def _wait(attempt: Callable[[], None], stop: threading.Event) -> None:
    while True:
        try:
            attempt()
            return
        except BlockingIOError:
            if stop.wait(POLL_SECONDS):
                raise Interrupted from None
