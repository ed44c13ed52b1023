"""What the raw samples of a cell say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SIGNIFICANT = 0.01  # a drift is taken for real below this probability that there is none
_NOTABLE = 0.05  # and matters from this change on, as a fraction of the median
_DRIFT_BINS = 200  # pairs of samples grow with the square of their number
_RESAMPLED_AT_ONCE = 1 << 22  # values, to bound memory
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


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How samples grow or shrink from the begin of a run to its end."""

    change: float  # over the whole run, as a fraction of the median; 0.05: the end takes 5 % longer
    p_value: float  # the probability of such a trend, or a stronger one, where there is none
    significant: bool  # improbable by chance, and 5 % at least


def bootstrap_interval(
    samples: Sequence[float],
    statistic: str = "median",
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The confidence interval of "median", "mean" or a percentile such as "p90", from samples in their order.

    Successive frames are correlated, so overlapping blocks of them are drawn (Künsch, The Jackknife and the
    Bootstrap for General Stationary Observations, Annals of Statistics 17, 1989). Their length grows with the
    cube root of the number of samples and with the correlation of neighbours, as is best for the variance of
    an autoregressive process of first order (Carlstein, Annals of Statistics 14, 1986). The interval lies
    between percentiles of the resampled statistic. Where neighbours correlate strongly it is still too
    narrow: of 200 samples with 0.8, one of 95 % holds the truth in five runs of six. The time is as
    samples times resamples.

    Raises ValueError where the samples are none or not finite, or an argument makes no sense.
    """
    import numpy as np

    values = _finite(samples)
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError(f"no confidence of {confidence} from {resamples} resamples")
    evaluate = _statistic(statistic)
    length = _block_length(values)
    blocks = math.ceil(len(values) / length)
    generator = np.random.default_rng(seed)
    found = np.empty(resamples)
    step = max(1, _RESAMPLED_AT_ONCE // len(values))
    for begin in range(0, resamples, step):
        count = min(step, resamples - begin)
        starts = generator.integers(0, len(values) - length + 1, size=(count, blocks, 1))
        drawn = (starts + np.arange(length)).reshape(count, -1)[:, : len(values)]
        found[begin : begin + count] = evaluate(values[drawn])
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def drift(samples: Sequence[float]) -> Drift:
    """The trend of samples over their run.

    The slope is Theil's and Sen's, the median over all pairs; whether it is real says Mann's and Kendall's
    test, corrected for ties (Gilbert, Statistical Methods for Environmental Pollution Monitoring, 1987,
    chapters 16 and 17). Long runs are first summarised by medians of equally many successive samples. That
    also takes away most of the correlation of neighbours, for which the test does not allow; what is left
    makes it find trends too often.

    Raises ValueError where the samples are none, not finite, or not positive.
    """
    import numpy as np

    values = _finite(samples)
    if values.min() <= 0:
        raise ValueError("a sample must be longer than nothing")
    size = math.ceil(len(values) / _DRIFT_BINS)
    bins = len(values) // size
    points = values if size == 1 else np.median(values[: bins * size].reshape(bins, size), axis=1)
    if bins < 2:
        return Drift(change=0.0, p_value=1.0, significant=False)
    earlier, later, apart = _all_pairs(bins)
    differences = points[later] - points[earlier]
    slope = _median(differences / apart)
    score = np.count_nonzero(differences > 0) - np.count_nonzero(differences < 0)
    p_value = _mann_kendall(points, int(score))
    change = slope * (bins - 1) / _median(values)
    return Drift(
        change=change, p_value=p_value, significant=p_value < SIGNIFICANT and abs(change) >= _NOTABLE
    )


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


def _finite(samples: Sequence[float]) -> np.ndarray:
    import numpy as np

    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError("no samples, or some are no finite numbers")
    return values


def _median(values: np.ndarray) -> float:
    """Of finite numbers; `np.median`, which looks for others, takes several times as long for a few."""
    import numpy as np

    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _statistic(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function that takes a statistic of each row."""
    import numpy as np

    if name == "mean":
        return lambda rows: np.mean(rows, axis=1)
    if name == "median":
        return lambda rows: np.median(rows, axis=1)
    percent = name.removeprefix("p")
    if percent != name and percent.isdecimal() and int(percent) <= 100:
        return lambda rows: np.percentile(rows, int(percent), axis=1)
    raise ValueError(f'the statistic {name!r} is none of "mean", "median", "p0" to "p100"')


def _block_length(values: np.ndarray) -> int:
    """How many successive samples are drawn together; at most a quarter of them."""
    import numpy as np

    # Ranks, as one far outlier would hide all correlation.
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    total = float(ranks @ ranks)
    correlation = min(max(float(ranks[:-1] @ ranks[1:]) / total, 0.0), 0.99) if total else 0.0
    growth: float = (math.sqrt(6) * correlation / (1 - correlation**2)) ** (2 / 3)
    return max(1, min(math.ceil(math.cbrt(len(values)) * max(1.0, growth)), len(values) // 4))


@lru_cache(4)  # cells of a sweep have as many samples
def _all_pairs(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of either of a pair, and how far they are apart."""
    import numpy as np

    earlier, later = np.triu_indices(count, 1)
    return earlier, later, later - earlier


def _mann_kendall(points: np.ndarray, score: int) -> float:
    """The two-sided probability of a score, by the normal approximation corrected for continuity."""
    ties = Counter(points.tolist()).values()
    variance = (_pairs(len(points)) - sum(_pairs(count) for count in ties)) / 18
    if variance <= 0:  # all are the same
        return 1.0
    return math.erfc(max(abs(score) - 1, 0) / math.sqrt(2 * variance))


def _pairs(count: int) -> int:
    """What so many distinct values add to 18 times the score's variance, and so many equal ones take away."""
    return count * (count - 1) * (2 * count + 5)
