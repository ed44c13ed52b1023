"""Runs a function in a process of its own, with limits of memory and time, and measures what it took."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUCK_SECONDS = 600  # by the clock on the wall: of a process that waits instead of computing


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended. `report`: what its function returned; None if it did not return."""

    report: Any
    signal: int  # that ended it; 0 for none
    peak_bytes: int  # of resident memory, beyond what it had at its start as a copy
    seconds: float  # of processor time


def run_limited(work: Callable[[], object], *, seconds: int, address_bytes: int) -> Ended:
    """Runs a function that returns what JSON can hold in a copy of this process, and waits for its end.

    `address_bytes`: what the copy may map in addition to what this process has. It gets SIGXCPU after
    `seconds` of processor time.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _child(work, writing, seconds, address_bytes)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        begin, _, said = stream.read().partition(b"\n")
    _, status, used = os.wait4(process, 0)
    return Ended(
        report=json.loads(said) if said else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        peak_bytes=max(used.ru_maxrss * 1024 - int(begin or 0), 0),
        seconds=used.ru_utime + used.ru_stime,
    )


def _child(work: Callable[[], object], writing: int, seconds: int, address_bytes: int) -> None:
    """Never returns: what the parent's callers do after the function is not this process's business."""
    try:
        faulthandler.disable()  # the parent tells of signals
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (_memory()[0] + address_bytes,) * 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(STUCK_SECONDS)
        os.write(writing, f"{_memory()[1]}\n".encode())
        said = json.dumps(work()).encode()
        while said:
            said = said[os.write(writing, said) :]
    finally:
        os._exit(0)


def _memory() -> tuple[int, int]:
    """The bytes that this process has mapped, and those that are resident."""
    mapped, resident, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return mapped * resource.getpagesize(), resident * resource.getpagesize()
