"""Student's distribution with any degrees of freedom, and derivatives of the log of the gamma function."""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_RECURRED = 16.0  # from here on, the expansions are exact to 1e-11
_TERMS = 10_000


def student_p(statistic: float, freedom: float) -> float:
    """The two-sided probability of a statistic at least this far from 0.

    It is the incomplete beta function at freedom / (freedom + statistic²), by its continued fraction
    (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8 and 26.7.1).
    """
    square = statistic * statistic
    share = freedom / (freedom + square)
    rest = square / (freedom + square)  # 1 - share would be inexact near 0
    if share == 0 or rest == 0:
        return share
    a, b = freedom / 2, 0.5
    beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(share) + b * math.log(rest) - beta)
    if share < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, share) / a
    return 1 - front * _fraction(b, a, rest) / b


@lru_cache(256)
def student_quantile(freedom: float) -> float:
    """The 97.5th percentile, by Newton's method from below, where the probability is convex."""
    log_peak = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    found = 1.9
    for _ in range(100):
        density = math.exp(log_peak - (freedom + 1) / 2 * math.log1p(found * found / freedom))
        step = (student_p(found, freedom) - 0.05) / (2 * density)
        found += step
        if abs(step) < 1e-10:
            break
    return found


def digamma(x: float) -> float:
    """The first derivative of log(gamma) at a positive number (Abramowitz and Stegun, 6.3.5 and 6.3.18)."""
    found = 0.0
    while x < _RECURRED:
        found -= 1 / x
        x += 1
    square = 1 / (x * x)
    return found + math.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))


def trigamma(x: float) -> float:
    """The second derivative of log(gamma) at a positive number (6.4.6 and 6.4.12)."""
    found = 0.0
    while x < _RECURRED:
        found += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return found + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def trigamma_inverse(value: float) -> float:
    """The number with this trigamma, which falls from infinity to 0; by bisection between 1e-6 and 1e9."""
    low, high = 1e-6, 1e9
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
    return high


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's algorithm in Thompson and Barnett's
    form (Coulomb and Bessel Functions of Complex Arguments and Order, Journal of Computational Physics 64,
    1986)."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            found *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return found


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
