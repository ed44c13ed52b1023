"""Processes that tests start: they hear signals as if nothing were ignored here, and end with their test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# A variable that everything inherits which is started here, whoever its parent is by now.
_VARIABLE = "HARNESS_TEST_THAT_STARTED_THIS"
# It serves this process until that ends, whichever test was the first to need it.
_KEPT = b"multiprocessing.resource_tracker"
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def signals_passed_on() -> Iterator[None]:
    """Within the block, what is started hears signals that this process ignores.

    `nohup` has SIGHUP ignored and a shell's background jobs SIGINT, and what is ignored stays so in programs
    that are started. What has a handler is as by default in them, and the handler does nothing here.
    """
    ignored = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def findable_as(name: str) -> Iterator[None]:
    """What is started within the block can be found by a name, below that of the block around."""
    before = os.environ.get(_VARIABLE, "")
    os.environ[_VARIABLE] = f"{before}/{name}"
    try:
        yield
    finally:
        os.environ[_VARIABLE] = before


def end_what_was_started() -> list[str]:
    """Kills what was started within the block, and says what that was."""
    mark = f"{_VARIABLE}={os.environ[_VARIABLE]}".encode()
    killed: dict[int, str] = {}
    until = time.monotonic() + 10
    while (found := _with(mark)) and time.monotonic() < until:
        for process, words in found.items():
            killed[process] = words
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    return list(killed.values())


def _with(mark: bytes) -> dict[int, str]:
    """The command lines of other processes that have the mark, or one that goes on after it."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            marks = [each for each in path.read_bytes().split(b"\0") if each.startswith(mark)]
            words = path.with_name("cmdline").read_bytes()
            inside = any(each == mark or each.startswith(mark + b"/") for each in marks)
            if inside and _KEPT not in words and int(path.parent.name) != os.getpid():
                found[int(path.parent.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


@contextlib.contextmanager
def running(words: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process, as of subprocess.Popen with these options. If it runs at the end of the block it is killed
    with its group; Popen's own block would wait for it, for ever where a test failed before it ended it.
    """
    with subprocess.Popen(words, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
