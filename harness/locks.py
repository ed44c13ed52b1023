"""Locks between harness processes: a measurement on this machine runs alone, a board runs one measurement.

Other heavy work on this machine runs in parallel, but never during a measurement. All harness processes of
this user share the lock files. The kernel releases a lock when its process ends for any reason.

These locks use flock directly: `filelock` has no shared locks, and a threading.Event cannot end its wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import console
from harness.resources import cache_directory

POLL_SECONDS = 0.05
TELL_SECONDS = 2.0  # between looks at who holds a lock; the first is after as long


class Interrupted(Exception):  # noqa: N818 - not an error
    """The sweep was asked to stop while it waited."""


def lock_file(name: str) -> Path:
    return _folder() / name


def _folder() -> Path:
    return cache_directory() / "locks"


@contextlib.contextmanager
def measuring(stop: threading.Event | None = None) -> Iterator[None]:
    """Waits until no other harness work runs on this machine, and excludes such work while the block runs.

    Raises Interrupted if `stop` is set while it waits.
    """
    with _locked(lock_file("machine"), stop):
        yield


@contextlib.contextmanager
def loading(stop: threading.Event | None = None, path: Path | None = None) -> Iterator[None]:
    """Excludes measurements on this machine while the block runs. Several such blocks may run in parallel.

    `path` is the machine's lock file, for callers that take the lock repeatedly. Raises Interrupted if `stop`
    is set while it waits.
    """
    path = path or lock_file("machine")
    _wait(lambda: _share(path), stop or threading.Event(), path)
    try:
        yield
    finally:
        _unshare(path)


# The threads of a process share one lock, because hundreds of boards take it in every round.
_shared: dict[Path, tuple[int, int]] = {}  # descriptor, and number of threads that hold the lock
_guard = threading.Lock()


def _share(path: Path) -> None:
    with _guard:
        handle, threads = _shared.get(path, (-1, 0))
        if not threads:
            handle = _open(path)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BaseException:
                os.close(handle)
                raise
        _shared[path] = handle, threads + 1


def _unshare(path: Path) -> None:
    with _guard:
        handle, threads = _shared.pop(path)
        if threads > 1:
            _shared[path] = handle, threads - 1
        else:
            os.close(handle)


@contextlib.contextmanager
def using(board: str, stop: threading.Event | None = None, folder: Path | None = None) -> Iterator[None]:
    """Excludes other measurements on a board while the block runs.

    `folder` contains the lock files, for callers that take locks repeatedly. Raises Interrupted if `stop` is
    set while it waits.
    """
    # A board's name may contain a slash, or be longer than a file name.
    name = hashlib.sha256(board.encode()).hexdigest()[:32]
    with _locked((folder or _folder()) / f"board-{name}", stop):
        yield


@contextlib.contextmanager
def _locked(path: Path, stop: threading.Event | None) -> Iterator[None]:
    handle = _open(path)
    try:
        _wait(lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB), stop or threading.Event(), path)
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


def _wait(attempt: Callable[[], None], stop: threading.Event, path: Path) -> None:
    """Attempts until it succeeds. Says who holds the lock at `path` if that takes long."""
    told = time.monotonic()
    with contextlib.ExitStack() as shown:
        progress: console.Progress | None = None
        while True:
            try:
                attempt()
                return
            except BlockingIOError:
                if stop.wait(POLL_SECONDS):
                    raise Interrupted from None
            now = time.monotonic()
            if now - told < TELL_SECONDS:
                continue
            told = now
            # This process's own work is no news.
            if others := sorted(holders(path) - {os.getpid()}):
                text = f"waiting for another harness (process {', '.join(map(str, others))})"
                if progress is None:
                    progress = shown.enter_context(console.progress(text, total=None))
                else:
                    progress.describe(text)


def holders(path: Path) -> set[int]:
    """The processes that hold the lock at `path`, as far as this user may see them."""
    found = set()
    with contextlib.suppress(OSError):  # there is no /proc, or no such file any more
        inode = path.stat().st_ino
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            # 1: FLOCK  ADVISORY  WRITE 29915 00:30:71 0 EOF; waiting ones are marked: 1: -> FLOCK
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                found.add(int(words[4]))
    return {process for process in found if _has_open(process, path)}


def _has_open(process: int, path: Path) -> bool:
    """Whether a process has the file open: files of several disks may have the same number."""
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                if link.samefile(path):
                    return True
    return False
