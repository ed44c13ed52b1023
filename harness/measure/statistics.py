"""Evaluates the raw samples of a cell: percentiles, throughput, drift and outliers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SIGNIFICANT = 0.01  # a drift is significant below this p-value ...
_NOTABLE = 0.04  # ... and from this change on, a fraction of the median; a drift of 5 % is thus found
_ENOUGH_ROUNDS = 6  # with fewer rounds, no order of them has a p-value below SIGNIFICANT
_DRIFT_BINS = 200  # bounds the number of pairs of samples
_OUTLYING = 3.5  # Iglewicz and Hoaglin's limit for the modified z-score


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Throughput and latency of a cell."""

    fps: float  # frames over time, not the mean of rates
    p50_ms: float
    p90_ms: float
    p99_ms: float


def percentile(samples: Sequence[float], percent: float) -> float:
    """The percentile by linear interpolation between the closest ranks (Hyndman and Fan's type 7).

    `percent` is from 0 to 100. Raises ValueError if there are no samples.
    """
    if not samples:
        raise ValueError("no samples")
    return ranked(sorted(samples), percent)


def ranked(ordered: Sequence[float] | np.ndarray, percent: float) -> float:
    """The same for samples in ascending order; there must be at least one."""
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (position - below))


def timing(samples_ns: Sequence[int]) -> Timing:
    """Summarises frame times in nanoseconds. Raises ValueError if there are none or one is not positive."""
    if not samples_ns or min(samples_ns) <= 0:
        raise ValueError("a sample must be longer than nothing")
    return Timing(
        fps=len(samples_ns) * 1e9 / sum(samples_ns),
        p50_ms=percentile(samples_ns, 50) / 1e6,
        p90_ms=percentile(samples_ns, 90) / 1e6,
        p99_ms=percentile(samples_ns, 99) / 1e6,
    )


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The trend of times from the begin of a round to its end, or from the first round to the last."""

    change: float  # as a fraction of the median; 0.05: the end takes 5 % longer
    p_value: float  # two-sided, of Mann's and Kendall's test
    significant: bool  # p_value < SIGNIFICANT, and a change of at least 4 %


def drift(rounds: Sequence[Sequence[float]]) -> Drift:
    """The trend of samples within their rounds, or the trend from round to round if it is clearer.

    Each round is a fresh process. The levels of processes differ without any trend. So the score of Mann's
    and Kendall's test, corrected for ties, is computed in each round, and scores and variances are added.
    Hirsch, Slack and Smith do the same with months instead of rounds (Techniques of Trend Analysis for
    Monthly Water Quality Data, Water Resources Research 18, 1982). The slope is Theil's and Sen's: the median
    over all pairs within rounds, as a fraction of the round's median (Gilbert, Statistical Methods for
    Environmental Pollution Monitoring, 1987, chapters 16 and 17). From six rounds on, the medians of the
    rounds are tested as a series too; the order of fewer rounds is never significant.

    Long rounds are first reduced to medians of bins of successive samples. This also removes most of the
    correlation of neighbours. The test assumes independent samples, so the remaining correlation makes it
    find trends too often.

    Raises ValueError if there are no rounds, a round has no samples, or a sample is not finite and positive.
    """
    import numpy as np

    series = positive(rounds)
    size = math.ceil(sum(map(len, series)) / _DRIFT_BINS)
    trends = [_trend([_binned(each, size) for each in series])]
    if len(series) >= _ENOUGH_ROUNDS:
        trends.append(_trend([np.array([_median(each) for each in series])]))
    return max(trends, key=lambda trend: (trend.significant, -trend.p_value))


def outliers(samples: Sequence[float]) -> list[int]:
    """The indices of outliers: samples with a modified z-score above 3.5 or below -3.5.

    The score compares a sample's distance from the median with the median of all these distances. If that is
    0, because half of the samples are equal, it compares with their mean (Iglewicz and Hoaglin, How to Detect
    and Handle Outliers, 1993). Raises ValueError if there are no samples or one is not finite.
    """
    import numpy as np

    values = _finite(samples)
    distances = np.abs(values - np.median(values))
    # Both estimate the standard deviation of normal samples.
    spread = float(np.median(distances)) / 0.6745 or float(np.mean(distances)) * 1.253314
    return [int(place) for place in np.flatnonzero(distances > _OUTLYING * spread)]


def positive(rounds: Sequence[Sequence[float]]) -> list[np.ndarray]:
    """Rounds as arrays. Raises ValueError if there is no round, if a round has no samples, or if a sample is
    not finite and positive."""
    series = [_finite(samples) for samples in rounds]
    if not series or min(values.min() for values in series) <= 0:
        raise ValueError("no samples, or one that is not longer than nothing")
    return series


def _finite(samples: Sequence[float]) -> np.ndarray:
    import numpy as np

    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError("no samples, or some are no finite numbers")
    return values


def _median(values: np.ndarray) -> float:
    """The median of finite numbers; for few of them several times as fast as `np.median`."""
    import numpy as np

    return ranked(np.sort(values), 50)


def _binned(values: np.ndarray, size: int) -> np.ndarray:
    """The medians of bins of `size` successive samples."""
    import numpy as np

    if size == 1:
        return values
    bins = len(values) // size
    medians: np.ndarray = np.median(values[: bins * size].reshape(bins, size), axis=1)
    return medians


def _trend(series: Sequence[np.ndarray]) -> Drift:
    """The common trend of several series with different levels."""
    import numpy as np

    series = [points / _median(points) for points in series if len(points) > 1]
    if not series:
        return Drift(change=0.0, p_value=1.0, significant=False)
    earlier, later, apart = _all_pairs(tuple(map(len, series)))
    points = np.concatenate(series)
    differences = points[later] - points[earlier]
    score = int(np.count_nonzero(differences > 0)) - int(np.count_nonzero(differences < 0))
    p_value = _mann_kendall(score, sum(map(_variance, series)))
    change = _median(differences / apart) * (len(points) / len(series) - 1)
    return Drift(
        change=change, p_value=p_value, significant=p_value < SIGNIFICANT and abs(change) >= _NOTABLE
    )


@lru_cache(4)  # most cells of a sweep have equally many samples
def _all_pairs(counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of points within series of these lengths: the indices of the earlier and of the later points
    in the concatenated series, and the distances between them."""
    import numpy as np

    pairs = [np.triu_indices(count, 1) for count in counts]
    begins = [sum(counts[:place]) for place in range(len(counts))]
    earlier, later = (
        np.concatenate([pair[end] + begin for pair, begin in zip(pairs, begins, strict=True)])
        for end in (0, 1)
    )
    return earlier, later, later - earlier


def _mann_kendall(score: int, variance: float) -> float:
    """The two-sided probability of a score, by the normal approximation corrected for continuity."""
    if variance <= 0:  # all samples are equal
        return 1.0
    return math.erfc(max(abs(score) - 1, 0) / math.sqrt(2 * variance))


def _variance(points: np.ndarray) -> float:
    """The variance of the score of a series without trend."""
    ties = Counter(points.tolist()).values()
    return (_pairs(len(points)) - sum(_pairs(count) for count in ties)) / 18


def _pairs(count: int) -> int:
    """n(n-1)(2n+5): added to 18 times the score's variance for n values, subtracted for n equal ones."""
    return count * (count - 1) * (2 * count + 5)
