"""Reads what Darknet printed: detections with their boxes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(
    r"(?P<name>.+): (?P<percent>\d+)%\s+\(left_x: *(?P<left>-?\d+) +top_y: *(?P<top>-?\d+) "
    r"+width: *(?P<width>-?\d+) +height: *(?P<height>-?\d+)\)"
)


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One line: a class, its confidence in whole percent, and left, top, width, height in whole pixels."""

    name: str
    percent: int
    box: tuple[int, int, int, int]


def read_printed(path: Path) -> list[Printed]:
    """All detections in a text that Darknet printed with -ext_output."""
    return [
        Printed(
            name=found["name"],
            percent=int(found["percent"]),
            box=(int(found["left"]), int(found["top"]), int(found["width"]), int(found["height"])),
        )
        for found in map(_LINE.match, path.read_text().splitlines())
        if found
    ]
