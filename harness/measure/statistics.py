"""What the raw samples of a cell say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SIGNIFICANT = 0.01  # a drift is taken for real below this probability that there is none
_NOTABLE = 0.04  # and matters from this change on, as a fraction of the median: one of 5 % is found
_ENOUGH_ROUNDS = 6  # of fewer, no order is that improbable
_DRIFT_BINS = 200  # pairs of samples grow with the square of their number
_OUTLYING = 3.5  # Iglewicz and Hoaglin's limit for the modified z-score


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
    return ranked(sorted(samples), percent)


def ranked(ordered: Sequence[float] | np.ndarray, percent: float) -> float:
    """The same of samples that are there in ascending order."""
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (position - below))


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


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How times rise or fall from the begin of a round to its end, or from the first round to the last."""

    change: float  # as a fraction of the median; 0.05: the end takes 5 % longer
    p_value: float  # the probability of such a trend, or a stronger one, where there is none
    significant: bool  # improbable by chance, and 4 % at least


def drift(rounds: Sequence[Sequence[float]]) -> Drift:
    """The trend of samples within their rounds or that from round to round, whichever is the clearer.

    Rounds are fresh processes, whose levels differ without any trend. So the score of Mann's and Kendall's
    test is taken in each, corrected for ties, and scores and variances are added (Hirsch, Slack and Smith,
    Techniques of Trend Analysis for Monthly Water Quality Data, Water Resources Research 18, 1982: months are
    what rounds are here); the slope is Theil's and Sen's, the median over all pairs within rounds, as a
    fraction of the round's median (Gilbert, Statistical Methods for Environmental Pollution Monitoring, 1987,
    chapters 16 and 17). Six rounds and more also are a series of their medians; the order of fewer is never
    improbable enough.

    Long runs are first summarised by medians of equally many successive samples. That also takes away most of
    the correlation of neighbours, for which the test does not allow; what is left makes it find trends too
    often.

    Raises ValueError where there is no round, or one has no samples or some that are not finite and positive.
    """
    import numpy as np

    series = positive(rounds)
    size = math.ceil(sum(map(len, series)) / _DRIFT_BINS)
    trends = [_trend([_binned(each, size) for each in series])]
    if len(series) >= _ENOUGH_ROUNDS:
        trends.append(_trend([np.array([_median(each) for each in series])]))
    return max(trends, key=lambda trend: (trend.significant, -trend.p_value))


def outliers(samples: Sequence[float]) -> list[int]:
    """The places of samples whose modified z-score is above 3.5 in size.

    Their distance from the median is compared with the median of all such distances, or where that is
    nothing, as half of the samples are the same, with their mean (Iglewicz and Hoaglin, How to Detect and
    Handle Outliers, 1993). Raises ValueError where the samples are none or not finite.
    """
    import numpy as np

    values = _finite(samples)
    distances = np.abs(values - np.median(values))
    # Either estimates the standard deviation where the samples are normal.
    spread = float(np.median(distances)) / 0.6745 or float(np.mean(distances)) * 1.253314
    return [int(place) for place in np.flatnonzero(distances > _OUTLYING * spread)]


def positive(rounds: Sequence[Sequence[float]]) -> list[np.ndarray]:
    """Rounds as arrays. Raises ValueError where there are none, or one has no samples or some that are not
    finite and positive."""
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
    """Of finite numbers; `np.median`, which looks for others, takes several times as long for a few."""
    import numpy as np

    return ranked(np.sort(values), 50)


def _binned(values: np.ndarray, size: int) -> np.ndarray:
    """Medians of so many successive samples each."""
    import numpy as np

    if size == 1:
        return values
    bins = len(values) // size
    medians: np.ndarray = np.median(values[: bins * size].reshape(bins, size), axis=1)
    return medians


def _trend(series: Sequence[np.ndarray]) -> Drift:
    """What series, each with a level of its own, have in common."""
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


@lru_cache(4)  # cells of a sweep have as many samples
def _all_pairs(counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of either of a pair within series that follow each other, and how far they are apart."""
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
    if variance <= 0:  # all are the same
        return 1.0
    return math.erfc(max(abs(score) - 1, 0) / math.sqrt(2 * variance))


def _variance(points: np.ndarray) -> float:
    """Of the score of a series without trend."""
    ties = Counter(points.tolist()).values()
    return (_pairs(len(points)) - sum(_pairs(count) for count in ties)) / 18


def _pairs(count: int) -> int:
    """What so many distinct values add to 18 times the score's variance, and so many equal ones take away."""
    return count * (count - 1) * (2 * count + 5)
