"""Computes the speed, clock, temperature and throttling over one long run."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from harness.boards.sensors.conditions import hottest_celsius, slowest_clock, throttled_during
from harness.boards.sensors.sampler import Sample
from harness.boards.sensors.state import BoardState
from harness.measure.result import TimePoint

PARTS = 60


def time_series(
    frames_ns: Sequence[int], sensors: Sequence[Sample], before: BoardState, parts: int = PARTS
) -> list[TimePoint]:
    """Splits a run into parts of equal duration, rounded to whole frames. `before` describes the sensors.

    Sensor readings begin before the first frame, while the program starts. The last reading is assumed to be
    at the end of the last frame, because the engine does little after it.
    """
    ends = list(accumulate(frames_ns))
    if not ends:
        return []
    begin = (sensors[-1].uptime_seconds if sensors else 0.0) - ends[-1] / 1e9
    points: list[TimePoint] = []
    first = 0
    for part in range(1, parts + 1):
        last = len(ends) if part == parts else bisect_right(ends, ends[-1] * part / parts)
        if last == first:  # a frame that takes longer than a part
            continue
        since, until = (ends[first - 1] if first else 0) / 1e9, ends[last - 1] / 1e9
        meanwhile = [sample for sample in sensors if since < sample.uptime_seconds - begin <= until]
        clocks = [clock for sample in meanwhile if (clock := slowest_clock(sample, before)) is not None]
        heat = [hot for sample in meanwhile if (hot := hottest_celsius(sample, before)) is not None]
        points.append(
            TimePoint(
                seconds=until,
                fps=(last - first) / (until - since),
                clock=statistics.median(clocks) if clocks else None,
                celsius=max(heat, default=None),
                throttled=throttled_during(meanwhile, before),
            )
        )
        first = last
    return points
