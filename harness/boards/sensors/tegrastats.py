"""What NVIDIA's tegrastats prints on a Jetson: the memory's clock, which /sys shows to root alone, and more.

The words are those of the "tegrastats Utility" in NVIDIA's Jetson Linux Developer Guide. Its version decides
which there are: rails come with and without their unit, and the memory's clock may need root.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.boards.sensors.state import RAILS_MICROWATTS

_MARK = re.compile(r"\bRAM [0-9]+/[0-9]+MB ")  # how a line begins, but for its date
_MEMORY_CLOCK = re.compile(r" EMC_FREQ [0-9]{1,3}%@([0-9]{1,6})(?![0-9])")
_TEMPERATURE = re.compile(r" ([A-Za-z][A-Za-z0-9_-]*)@(-?[0-9]{1,3})(?:\.([0-9]{1,3}))?C(?= |$)")
_RAIL = re.compile(r" ([A-Z][A-Z0-9_]*) ([0-9]{1,9})(?:mW)?/[0-9]{1,9}(?:mW)?(?= |$)")


@dataclass(frozen=True, kw_only=True)
class TegraStats:
    """A line of tegrastats, with its names."""

    memory_mhz: int | None
    temperatures: Mapping[str, int]  # millidegrees
    rails: Mapping[str, int]  # microwatts at that moment


def parse_tegrastats(line: str) -> TegraStats | None:
    """Parses a line; None if it is not from tegrastats."""
    if not (mark := _MARK.search(line)):
        return None
    said = " " + line[mark.end() :].strip()
    clock = _MEMORY_CLOCK.search(said)
    return TegraStats(
        memory_mhz=int(clock[1]) if clock else None,
        temperatures={
            name: int(whole + part.ljust(3, "0")) for name, whole, part in _TEMPERATURE.findall(said)
        },
        rails={
            name: microwatts
            for name, milliwatts in _RAIL.findall(said)
            if (microwatts := 1000 * int(milliwatts)) in RAILS_MICROWATTS
        },
    )
