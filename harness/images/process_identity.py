"""Identifies a process, so that a later process with the same number is not mistaken for it."""

from __future__ import annotations

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def own_identity() -> str:
    """This process: boot, namespace of process numbers, number, start time in ticks since boot."""
    return f"{_here()} {os.getpid()} {_start_time(os.getpid())}"


def is_dead(identity: str) -> bool:
    """Whether the named process is known to have ended; False for processes of other machines."""
    words = identity.split()
    if len(words) != 4 or not words[2].isdigit():
        return False
    boot, namespace = _here().split()
    if words[0] != boot:
        return True
    if words[1] != namespace:
        return False
    return str(_start_time(int(words[2]))) != words[3]


def _here() -> str:
    return f"{_BOOT_ID.read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"


def _start_time(process: int) -> int | None:
    """Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and brackets. None: no such process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 1 :].split()
    # A zombie keeps its number but does not run.
    return None if fields[0] == "Z" else int(fields[19])
