"""Process groups that are killed when this process ends for any reason."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from harness.errors import HarnessError

# Reads until this process has ended for any reason: the kernel then closes the other end of the pipe. Then
# the following commands run. PR_SET_PDEATHSIG is no alternative: it does not reach children of the program,
# such as the engine under the sampler's shell. A hung child would keep the machine's lock.
_GUARD = "trap '' HUP INT TERM; read -r _; "
_KILL_GROUP = "kill -KILL 0"
_GRACE = 2  # seconds
_END_GROUP = f"kill -TERM 0; sleep {_GRACE}; kill -KILL 0"


@contextlib.contextmanager
def process_group(*, gently: bool = False) -> Iterator[int]:
    """The number of a process group; its processes are killed at the end of the block or of this process.

    `gently`: if this process ends, they first get SIGTERM. Ninja needs this to end its compilers, because it
    gives each compiler its own group.
    """
    with guard(_END_GROUP if gently else _KILL_GROUP) as leader:
        try:
            yield leader.pid
        finally:
            kill_group(leader.pid)


def end_group(group: int) -> None:
    """Sends SIGTERM to a process group, and waits a short time for the end of its processes."""
    # The guard ignores SIGTERM, so it remains.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and _members(group) > 1:
        time.sleep(0.02)


def _members(group: int) -> int:
    """The number of running processes in a group."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            found += fields[2] == str(group) and fields[0] != "Z"
    return found


def guard(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A shell, leader of a process group, that runs `script` when its standard input is closed, at the latest
    when this process has ended."""
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
    """Kills all processes of a process group, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
