"""Finds the steps in a series of measurements: where its level changes for good or for a while."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.measure.distributions import student_p

if TYPE_CHECKING:
    import numpy as np

LEAST_POINTS = 4  # fewer do not show how much a series scatters without any step
_FINEST = 1e-5  # no clock is steadier: a lower bound for the standard deviation
_ENOUGH_POINTS = 8  # fewer do not show which of them are outliers
_OUTLYING = 4.0  # standard deviations from both neighbours, Olshen's choice


def steps(values: Sequence[float], level: float) -> list[int]:
    """The indices of the values, such as logarithms of times, at which a new level begins.

    Circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, Circular Binary Segmentation for the
    Analysis of Array-Based DNA Copy Number Data, Biostatistics 5, 2004): the stretch of values that differs
    most from all others, by Student's t, is cut out if it is significant, and each part is searched
    again. Unlike a binary search for single steps, this also finds a level that was left and reached again.
    Afterwards each boundary has to be significant between its own two levels.

    Olshen's p-values come from permutations, of which short series do not have enough. Here they are those of
    Student's distribution times the number of stretches that were compared (Bonferroni). In a series of
    independent normal values of one level, any step is found with a probability of at most `level`.

    As Olshen does, a single value that is far from both of its neighbours is first moved to the nearer one:
    it is no step. The last value has only one neighbour and stays.
    """
    import numpy as np

    series = _without_outliers(np.asarray(values, dtype=np.float64))
    return _confirmed(series, sorted(_cuts(series, level)), level)


def levels(values: Sequence[float], places: Sequence[int]) -> list[float]:
    """The mean of the values of each part between steps."""
    ends = [0, *places, len(values)]
    return [sum(values[begin:end]) / (end - begin) for begin, end in itertools.pairwise(ends)]


def why_unsearched(points: int) -> str | None:
    """The reason why no steps can be found in a series of this length; None if they can."""
    if points >= LEAST_POINTS:
        return None
    return f"too few runs: {points}, at least {LEAST_POINTS} are needed"


def _without_outliers(series: np.ndarray) -> np.ndarray:
    import numpy as np

    if len(series) < _ENOUGH_POINTS:
        return series
    # The standard deviation of normal values, from the median of the differences of successive ones.
    deviation = float(np.median(np.abs(np.diff(series)))) / 0.6745 / math.sqrt(2)
    low = np.minimum(series[:-2], series[2:])
    high = np.maximum(series[:-2], series[2:])
    nearer = np.clip(series[1:-1], low, high)
    outlying = np.abs(series[1:-1] - nearer) > _OUTLYING * max(deviation, _FINEST)
    found = series.copy()
    found[1:-1][outlying] = nearer[outlying]
    return found


def _cuts(series: np.ndarray, level: float) -> list[int]:
    count = len(series)
    if count < LEAST_POINTS:
        return []
    begin, end, squares, between = _most_different(series)
    arcs = count * (count - 1) / 2
    if arcs * _p_value(between, squares - between, count - 2) > level:
        return []
    found = []
    places = [0, *([begin] if begin else []), end, count]
    for left, right in itertools.pairwise(places):
        found += [left] if left else []
        found += [left + cut for cut in _cuts(series[left:right], level)]
    return found


def _most_different(series: np.ndarray) -> tuple[int, int, float, float]:
    """The begin and the end of the stretch that differs most from all other values; the sum of squares of all
    values around their mean, and the part of it that is between the stretch and the others."""
    import numpy as np

    count = len(series)
    centred = series - series.mean()
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    best = (0, 1, -1.0)
    for end in range(1, count):  # one up to the last value is the complement of one from the first
        lengths = end - np.arange(end)
        between = (sums[end] - sums[:end]) ** 2 * count / (lengths * (count - lengths))
        begin = int(between.argmax())
        if between[begin] > best[2]:
            best = (begin, end, float(between[begin]))
    return best[0], best[1], float(centred @ centred), best[2]


def _confirmed(series: np.ndarray, places: list[int], level: float) -> list[int]:
    """Removes the least significant step, again and again, until all are significant. A cut may have one end
    at a step and the other anywhere."""
    count = len(series)
    while places:
        ends = [0, *places, count]
        parts = [series[begin:end] for begin, end in itertools.pairwise(ends)]
        freedom = count - len(parts)
        within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
        p_values = [
            _p_value(float(one.mean() - other.mean()) ** 2 / (1 / len(one) + 1 / len(other)), within, freedom)
            for one, other in itertools.pairwise(parts)
        ]
        worst = max(range(len(places)), key=lambda index: p_values[index])
        if (count - 1) * p_values[worst] <= level:
            break
        del places[worst]
    return places


def _p_value(between: float, within: float, freedom: int) -> float:
    """Of the square of a difference, in units of the variance that `within` is the sum of squares of."""
    if freedom < 1:
        return 1.0
    variance = max(within / freedom, _FINEST**2)
    return student_p(float((between / variance) ** 0.5), freedom)
