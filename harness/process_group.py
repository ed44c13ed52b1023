"""Processes that end with this one, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from harness.errors import HarnessError

# Reads until this process has ended, however it did: the kernel then closes the other end of the pipe. What
# follows is done then. PR_SET_PDEATHSIG would reach a program alone, and not what it has started, as the
# sampler's shell starts the engine; a program that kept the machine's lock would keep it as long as it hung.
_GUARD = "trap '' HUP INT TERM; read -r _; "
_KILL_GROUP = "kill -KILL 0"
_GRACE = 2  # seconds
_END_GROUP = f"kill -TERM 0; sleep {_GRACE}; kill -KILL 0"


@contextlib.contextmanager
def process_group(*, gently: bool = False) -> Iterator[int]:
    """The number of a process group; what is in it is killed at the end of the block or of this process.

    `gently`: where this process ends, they are asked to end before that. Ninja, which gives each compiler a
    group of its own, ends them then.
    """
    with guard(_END_GROUP if gently else _KILL_GROUP) as leader:
        try:
            yield leader.pid
        finally:
            kill_group(leader.pid)


def end_group(group: int) -> None:
    """Asks what is in a process group to end, and waits for that, but not for long."""
    # The guard hears no SIGTERM: it is the last one.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and _members(group) > 1:
        time.sleep(0.02)


def _members(group: int) -> int:
    """How many processes of a group still run."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            found += fields[2] == str(group) and fields[0] != "Z"
    return found


def guard(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A shell, leader of a process group, that runs `script` when it is left or this process has ended."""
    try:
        return subprocess.Popen(
            ["sh", "-c", _GUARD + script, "sh", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            encoding="utf-8",
        )
    except OSError as error:
        raise HarnessError(f"sh: cannot be started: {error.strerror}") from None


def kill_group(group: int) -> None:
    """Kills what is in a process group, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
