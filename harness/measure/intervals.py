"""Confidence intervals of the percentiles of a cell's samples, of its speed, and of ratios of speeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.measure.statistics import positive, ranked

if TYPE_CHECKING:
    import numpy as np

_RESAMPLES = 400  # give a standard error to 4 %
_MOST_BLOCKS = 200
_MOST_RANKS = 2000
_LEAST_FREEDOM = 2  # with 1, Student's interval is useless: 12.7 standard errors to either side


@dataclass(frozen=True)
class MeanTime:
    """The logarithm of a cell's mean time, its standard error, and the error's degrees of freedom."""

    log: float
    error: float
    freedom: int


def percentile_intervals(
    rounds: Sequence[Sequence[float]], percents: Sequence[float]
) -> list[tuple[float, float] | None]:
    """The 95 % confidence interval of each of these percentiles over the samples of all rounds. Each round is
    a fresh process; its samples are in the order of measurement.

    Processes differ from each other by more than their samples differ (for example, their memory lies
    elsewhere). So each of several rounds counts as one observation, regardless of its number of samples. The
    interval is Student's, from the scatter of the rounds' percentiles (Georges, Buytaert and Eeckhout,
    Statistically Rigorous Java Performance Evaluation, OOPSLA 2007; Kalibera and Jones, Rigorous Benchmarking
    in Reasonable Time, ISMM 2013). A bootstrap of rounds and of blocks within them is not used: for three
    rounds, which can be drawn in only ten ways, its intervals are too narrow, and too wide if Student's
    distribution widens them.

    For one round the interval is from a block bootstrap: blocks of successive samples are drawn with
    replacement, because neighbours correlate. The blocks' length grows with the cube root of the number of
    samples and with the correlation of neighbours, which is optimal for the variance of an autoregressive
    process of first order (Carlstein, The Use of Subseries Values for Estimating the Variance of a General
    Statistic from a Stationary Sequence, Annals of Statistics 14, 1986). At most 200 blocks and 2000 ranks
    are distinguished, which bounds the time for long series. A bootstrap of few blocks varies too little, so
    its standard error is corrected and Student's distribution is used (Hesterberg, What Teachers Should Know
    about the Bootstrap, The American Statistician 69, 2015). The interval of one round does not cover the
    differences between processes.

    The logarithms of percentiles are used, because times are positive and seldom symmetrical. An interval is
    None if there are too few rounds or samples; `why_no_interval` gives the reason.

    Raises ValueError if there are no rounds, a round has no samples, or a sample is not finite and positive.
    """
    import numpy as np

    series = positive(rounds)
    ordered = np.sort(np.concatenate(series))
    if len(series) > 1:
        errors = _errors_between([np.sort(each) for each in series], percents)
        freedom = len(series) - 1
    else:
        blocks = len(ordered) // _block_length(series[0])
        errors = _errors_within(series[0], ordered, blocks, percents)
        freedom = blocks - 1
    intervals: list[tuple[float, float] | None] = []
    for percent, error in zip(percents, errors, strict=True):
        if freedom < _LEAST_FREEDOM or len(ordered) < _least_samples(percent):
            intervals.append(None)
            continue
        middle, factor = ranked(ordered, percent), math.exp(_student(freedom) * error)
        intervals.append((middle / factor, middle * factor))
    return intervals


def why_no_interval(rounds: Sequence[Sequence[float]], percent: float) -> str | None:
    """The reason why `percentile_intervals` has no interval for a percentile; None if it has one."""
    if 1 < len(rounds) <= _LEAST_FREEDOM:
        return f"too few rounds: {len(rounds)}, at least {_LEAST_FREEDOM + 1} are needed"
    count = sum(map(len, rounds))
    least = max(_least_samples(percent), _LEAST_FREEDOM + 1)
    return f"too few samples: {count}, at least {least} are needed" if count < least else None


def mean_time(rounds: Sequence[Sequence[float]]) -> MeanTime | None:
    """The mean time of all samples with its standard error. The error comes from the scatter of the rounds'
    means; with a single round, from the means of blocks. None if there are too few rounds or samples. Raises
    ValueError as `percentile_intervals` does.
    """
    import numpy as np

    series = positive(rounds)
    if len(series) > 1:
        means = np.array([each.mean() for each in series])
    else:
        length = _block_length(series[0])
        blocks = len(series[0]) // length
        means = series[0][: blocks * length].reshape(blocks, length).mean(axis=1)
    if len(means) <= _LEAST_FREEDOM:
        return None
    return MeanTime(
        log=math.log(np.concatenate(series).mean()),
        error=float(np.log(means).std(ddof=1)) / math.sqrt(len(means)),
        freedom=len(means) - 1,
    )


def speed_interval(time: MeanTime) -> tuple[float, float]:
    """The 95 % confidence interval of a speed, the inverse of a mean time, per unit of that time."""
    reach = _student(time.freedom) * time.error
    return math.exp(-time.log - reach), math.exp(-time.log + reach)


def ratio_interval(time: MeanTime, other: MeanTime) -> tuple[float, float]:
    """The 95 % confidence interval of the speed of the first divided by the speed of the other: Welch's
    interval for the difference of logarithms (The Generalization of "Student's" Problem when Several
    Different Population Variances are Involved, Biometrika 34, 1947)."""
    ratio = other.log - time.log
    parts = [time.error**2, other.error**2]
    if not sum(parts):
        return math.exp(ratio), math.exp(ratio)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / time.freedom + parts[1] ** 2 / other.freedom)
    reach = _student(max(math.floor(freedom), _LEAST_FREEDOM)) * math.sqrt(sum(parts))
    return math.exp(ratio - reach), math.exp(ratio + reach)


def _least_samples(percent: float) -> int:
    """The number of samples with one expected beyond the percentile: 10 for p90, 100 for p99."""
    return math.ceil(100 / (100 - percent))


def _errors_between(ordered: Sequence[np.ndarray], percents: Sequence[float]) -> np.ndarray:
    """The standard error of the logarithm of each percentile, from several series in ascending order."""
    import numpy as np

    values = np.log([[ranked(each, percent) for each in ordered] for percent in percents])
    errors: np.ndarray = values.std(axis=1, ddof=1) / math.sqrt(len(ordered))
    return errors


def _errors_within(
    values: np.ndarray, ordered: np.ndarray, blocks: int, percents: Sequence[float]
) -> np.ndarray:
    """The same from one series, by a bootstrap of this many blocks."""
    import numpy as np

    # The number of samples up to each rank in a resample is the sum over its blocks.
    count = len(values)
    step = math.ceil(count / _MOST_RANKS)
    ranks = math.ceil(count / step)
    block = np.argsort(values, kind="stable") * blocks // count
    table = np.bincount(block * ranks + np.arange(count) // step, minlength=blocks * ranks)
    upto = table.reshape(blocks, ranks).cumsum(axis=1, dtype=np.float64)
    drawn = np.einsum("ij,jk->ik", _draws(blocks), upto)  # a product `@` waits for threads on a busy machine
    support = ordered[np.minimum(np.arange(ranks) * step + step // 2, count - 1)]
    found = np.empty((len(percents), _RESAMPLES))
    for place, percent in enumerate(percents):
        position = (drawn[:, -1] - 1) * (percent / 100)
        below = np.floor(position)
        above = np.ceil(position)
        low = support[np.count_nonzero(drawn <= below[:, None], axis=1)]
        high = support[np.count_nonzero(drawn <= above[:, None], axis=1)]
        found[place] = low + (high - low) * (position - below)
    errors: np.ndarray = np.log(found).std(axis=1) * math.sqrt(blocks / max(blocks - 1, 1))
    return errors


@lru_cache(16)  # most cells of a sweep have about equally many samples
def _draws(blocks: int) -> np.ndarray:
    """How often each block is in each resample, float64 [_RESAMPLES, blocks]; always the same draws."""
    import numpy as np

    draws = np.random.default_rng(0).multinomial(blocks, [1 / blocks] * blocks, size=_RESAMPLES)
    return draws.astype(np.float64)


def _block_length(values: np.ndarray) -> int:
    """The number of successive samples in a block; at most a quarter of all samples."""
    import numpy as np

    # The correlation of ranks: a single far outlier would hide that of the values.
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    total = float(ranks @ ranks)
    correlation = min(max(float(ranks[:-1] @ ranks[1:]) / total, 0.0), 0.99) if total else 0.0
    growth: float = (math.sqrt(6) * correlation / (1 - correlation**2)) ** (2 / 3)
    length = max(math.ceil(math.cbrt(len(values)) * max(1.0, growth)), math.ceil(len(values) / _MOST_BLOCKS))
    return max(1, min(length, len(values) // 4))


def _student(freedom: int) -> float:
    """The 97.5th percentile of Student's distribution. From three degrees of freedom on, it comes from the
    expansion of Cornish and Fisher, with an error below 0.005 (Abramowitz and Stegun, Handbook of
    Mathematical Functions, 26.7.5)."""
    if freedom <= 2:
        return (12.7062, 4.3027)[freedom - 1]
    inverse = 1 / freedom
    return 1.95996 + inverse * (2.37227 + inverse * (2.82250 + inverse * (2.55585 + inverse * 1.58953)))
