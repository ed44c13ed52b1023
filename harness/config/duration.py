"""Times as people write them: 90s, 30m or 2h."""

from __future__ import annotations

import re

DURATION = r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|h)"
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LONGEST = 7 * 86_400


def seconds_of(text: str) -> float:
    """Seconds. Raises ValueError for what is not a time from 1s to 168h."""
    found = re.fullmatch(DURATION, text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0
    if not 1 <= seconds <= _LONGEST:
        raise ValueError(f"{text!r} is not a time from 1s to 168h, for example 90s, 30m or 2h")
    return seconds
