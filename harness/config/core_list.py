"""Lists of processor cores, as `0-3` or `0,2`."""

from __future__ import annotations

import re

MOST_CORES = 1024  # the size of Linux's cpu_set_t
_LIST = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*")


def parse_cores(text: str) -> list[int]:
    """The cores of a list, in its order, as the engine reads it.

    Raises ValueError if it is malformed or names a core twice.
    """
    if not _LIST.fullmatch(text):
        raise ValueError("not a list of cores")
    cores: list[int] = []
    for part in text.split(","):
        ends = [int(end) for end in part.split("-")]
        first, last = ends[0], ends[-1]
        if last < first:
            raise ValueError(f"{part} goes backwards")
        if last >= MOST_CORES:
            raise ValueError(f"the highest core is {MOST_CORES - 1}")
        cores.extend(range(first, last + 1))
    if len(set(cores)) < len(cores):
        raise ValueError("it names a core twice")
    return cores
