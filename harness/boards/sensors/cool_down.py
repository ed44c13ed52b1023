"""Lets a board cool down before it is measured."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness import console
from harness.boards.base import Board
from harness.boards.paths import BoardPaths
from harness.boards.sensors.state import read_state

POLL_SECONDS = 3.0
SETTLED_SECONDS = 60.0  # without a lower temperature, after which the wait ends
_COOLER = 0.5  # degrees that count as cooler; about the resolution of sensors


class Outcome(enum.StrEnum):
    """Why the wait ended."""

    COOL = "cool"  # below the limit
    SETTLED = "settled"  # above the limit, but constant
    TIMEOUT = "timeout"
    NO_SENSOR = "no sensor"


@dataclass(frozen=True, kw_only=True)
class Cooling:
    """A finished wait; temperatures in degrees Celsius of the hottest core, None without a sensor."""

    outcome: Outcome
    limit_celsius: float
    first_celsius: float | None
    last_celsius: float | None
    waited_seconds: float  # not counting the readings


def wait_until_cool(
    board: Board,
    paths: BoardPaths,
    limit_celsius: float,
    timeout: float,
    sleep: Callable[[float], object] = time.sleep,
) -> Cooling:
    """Waits until the hottest core is below the limit or its temperature is constant, at most `timeout` s."""
    first = last = read_state(board, paths).hottest_celsius
    if first is None or first < limit_celsius:
        return _cooling(first, first, limit_celsius, 0.0)
    waited, lowest, lowest_at = 0.0, first, 0.0
    with console.progress(f"{board.name} cooling down to {limit_celsius:g} °C", None) as progress:
        while last is not None and last >= limit_celsius and waited < timeout:
            if waited - lowest_at >= SETTLED_SECONDS:
                return _cooling(first, last, limit_celsius, waited, settled=True)
            pause = min(POLL_SECONDS, timeout - waited)
            sleep(pause)
            waited += pause
            last = read_state(board, paths).hottest_celsius
            if last is not None:
                progress.describe(f"{board.name} cooling down: {last:.1f} °C, limit {limit_celsius:g} °C")
                if last <= lowest - _COOLER:
                    lowest, lowest_at = last, waited
    return _cooling(first, last, limit_celsius, waited)


def _cooling(
    first: float | None, last: float | None, limit: float, waited: float, *, settled: bool = False
) -> Cooling:
    if last is None:
        outcome = Outcome.NO_SENSOR
    elif last < limit:
        outcome = Outcome.COOL
    else:
        outcome = Outcome.SETTLED if settled else Outcome.TIMEOUT
    return Cooling(
        outcome=outcome, limit_celsius=limit, first_celsius=first, last_celsius=last, waited_seconds=waited
    )
