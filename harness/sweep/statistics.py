"""What the raw samples of a cell say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Throughput and latency of a cell."""

    fps: float  # frames over time, not the mean of rates
    p50_ms: float
    p90_ms: float
    p99_ms: float


def percentile(samples: Sequence[float], percent: float) -> float:
    """The percentile by linear interpolation between the closest ranks (Hyndman and Fan's type 7)."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def timing(samples_ns: Sequence[int]) -> Timing:
    """Summarises samples, each the nanoseconds of one frame. Raises ValueError where they hold no time."""
    if not samples_ns or min(samples_ns) <= 0:
        raise ValueError("a sample must be longer than nothing")
    return Timing(
        fps=len(samples_ns) * 1e9 / sum(samples_ns),
        p50_ms=percentile(samples_ns, 50) / 1e6,
        p90_ms=percentile(samples_ns, 90) / 1e6,
        p99_ms=percentile(samples_ns, 99) / 1e6,
    )
