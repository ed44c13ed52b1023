"""Tests whether cells take longer in one run than in another, from the samples of their rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.measure.distributions import (
    digamma,
    student_p,
    student_quantile,
    trigamma,
    trigamma_inverse,
)
from harness.measure.statistics import positive, ranked

LEAST_ROUNDS = 3  # a variance of two rounds is too uncertain
_FINEST = 1e-5  # no clock is steadier: a lower bound for the standard deviation, as a fraction
_CAUTION = 0.5  # standard errors that are added to the estimated spread of variances

Rounds = Sequence[Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class TimeRatio:
    """The time of a cell in B as a multiple of its time in A."""

    ratio: float
    low: float  # 95 % confidence interval of this ratio alone
    high: float
    p_value: float  # two-sided, of this cell alone
    effect_size: float  # log(ratio) in standard deviations between processes


@dataclass(frozen=True)
class _Scatter:
    """The logarithm of a ratio, the variance of the logarithms of processes' times, the degrees of freedom
    of that variance, and the factor that makes it the variance of the ratio."""

    log_ratio: float
    variance: float
    freedom: float
    factor: float


def time_ratios(cells: Sequence[tuple[Rounds, Rounds]]) -> list[TimeRatio]:
    """Compares the rounds of each cell in A with those in B. `cells` were measured on boards of the same
    kind, so that their noise is similar.

    A round is a process, and processes differ by more than the samples within one. So each round counts as
    one observation: the logarithm of its median, which a few outliers do not move. The test is Welch's (The
    Generalization of "Student's" Problem when Several Different Population Variances are Involved, Biometrika
    34, 1947). The side with more rounds counts for no more degrees of freedom than the other, because
    Welch's approximation fails if three rounds face many.

    The variance of few rounds is uncertain, which makes the test weak. Other cells on the same board have
    similar noise, so each variance is moved towards that of all cells, the more the fewer rounds a cell has
    and the more alike the cells' variances are (Smyth, Linear Models and Empirical Bayes Methods for
    Assessing Differential Expression in Microarray Experiments, Statistical Applications in Genetics and
    Molecular Biology 3, 2004).

    Raises ValueError if a side has fewer than three rounds (`why_untested` says so), a round has no
    samples, or a sample is not finite and positive.
    """
    return [_ratio(scatter) for scatter in _moderated([_scatter(a, b) for a, b in cells])]


def typical_time(rounds: Rounds) -> float:
    """The geometric mean of the rounds' medians. The ratio of two cells is that of these times."""
    return math.exp(_log_time(rounds)[0])


def why_untested(a: int, b: int) -> str | None:
    """The reason why cells with these numbers of rounds cannot be compared; None if they can."""
    few = min(a, b)
    if few >= LEAST_ROUNDS:
        return None
    side = "" if a == b else " in A" if a < b else " in B"
    return f"too few rounds: {few}{side}, at least {LEAST_ROUNDS} are needed"


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number: each is at most 0.05 only if Holm's procedure rejects it at
    5 %. Among all hypotheses that hold, it then rejects any with a probability of at most 5 % (A Simple
    Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6, 1979)."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _scatter(a: Rounds, b: Rounds) -> _Scatter:
    if why := why_untested(len(a), len(b)):
        raise ValueError(why)
    (log_a, error_a), (log_b, error_b) = _log_time(a), _log_time(b)
    error = error_a + error_b
    freedom = error**2 / (error_a**2 / (len(a) - 1) + error_b**2 / (len(b) - 1))
    factor = 1 / len(a) + 1 / len(b)
    return _Scatter(
        log_ratio=log_b - log_a,
        variance=error / factor,
        freedom=min(freedom, 2.0 * (min(len(a), len(b)) - 1)),
        factor=factor,
    )


def _log_time(rounds: Rounds) -> tuple[float, float]:
    """The mean of the logarithms of the rounds' medians, and the variance of that mean."""
    import numpy as np

    logs = np.log([ranked(np.sort(samples), 50) for samples in positive(rounds)])
    variance = float(logs.var(ddof=1)) if len(logs) > 1 else 0.0
    return float(logs.mean()), max(variance, _FINEST**2) / len(logs)


def _moderated(cells: Sequence[_Scatter]) -> list[_Scatter]:
    """The cells with their variances moved towards the common one.

    Smyth's estimate from the mean and the variance of their logarithms. Few cells do not show well how much
    their variances differ. If the estimate is too small, the test finds differences too often. So half a
    standard error is added to it.
    """
    if len(cells) < 2:
        return list(cells)
    logs = [
        math.log(cell.variance) - digamma(cell.freedom / 2) + math.log(cell.freedom / 2) for cell in cells
    ]
    mean = sum(logs) / len(logs)
    total = sum((log - mean) ** 2 for log in logs) / (len(logs) - 1)
    sampling = sum(trigamma(cell.freedom / 2) for cell in cells) / len(cells)
    error = math.sqrt(2 / (len(cells) - 1)) * max(total, sampling)
    prior = 2 * trigamma_inverse(max(total - sampling, 0) + _CAUTION * error)
    common = math.exp(mean + digamma(prior / 2) - math.log(prior / 2))
    most = sum(cell.freedom for cell in cells)
    return [
        _Scatter(
            log_ratio=cell.log_ratio,
            variance=(prior * common + cell.freedom * cell.variance) / (prior + cell.freedom),
            freedom=min(prior + cell.freedom, most),
            factor=cell.factor,
        )
        for cell in cells
    ]


def _ratio(cell: _Scatter) -> TimeRatio:
    error = math.sqrt(cell.variance * cell.factor)
    reach = student_quantile(cell.freedom) * error
    return TimeRatio(
        ratio=math.exp(cell.log_ratio),
        low=math.exp(cell.log_ratio - reach),
        high=math.exp(cell.log_ratio + reach),
        p_value=student_p(cell.log_ratio / error, cell.freedom),
        effect_size=cell.log_ratio / math.sqrt(cell.variance),
    )
