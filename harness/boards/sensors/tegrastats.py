"""Parses the output of tegrastats on a Jetson. It has the memory's clock, which only root can read in /sys.

The format is described in NVIDIA's Jetson Linux Developer Guide, "tegrastats Utility". It depends on the
version: some print rails without their unit, and some print the memory's clock only for root.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.boards.sensors.state import RAILS_MICROWATTS

_MARK = re.compile(r"\bRAM [0-9]+/[0-9]+MB ")  # the begin of a line, after its date
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
