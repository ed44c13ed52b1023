"""Student's distribution and the derivatives of the gamma function, against tables and their definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.distributions import (
    digamma,
    student_p,
    student_quantile,
    trigamma,
    trigamma_inverse,
)

POSITIVE = st.floats(1e-3, 1e6)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (10, 2.22814), (30, 2.04227), (1e7, 1.95996)],
)
def test_quantiles_are_those_of_the_tables(freedom: float, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, abs=1e-5)


@given(st.floats(1, 1e6))
def test_a_quantile_has_its_probability(freedom: float) -> None:
    assert student_p(student_quantile(freedom), freedom) == pytest.approx(0.05, abs=1e-9)


@given(st.floats(0, 1e3))
def test_one_degree_of_freedom_is_cauchy_and_two_has_a_closed_form(statistic: float) -> None:
    assert student_p(statistic, 1) == pytest.approx(2 * math.atan2(1, statistic) / math.pi, rel=1e-9)
    share = statistic / math.sqrt(2 + statistic * statistic)
    assert student_p(statistic, 2) == pytest.approx(1 - share, abs=1e-12)
    assert student_p(-statistic, 2) == student_p(statistic, 2)


def test_probabilities_end_at_0_and_1() -> None:
    assert student_p(0, 7) == 1
    assert student_p(math.inf, 7) == 0
    assert 0 <= student_p(1e200, 7) < 1e-100


def test_derivatives_of_the_gamma_function_at_known_places() -> None:
    assert digamma(1) == pytest.approx(-0.5772156649015329, abs=1e-10)
    assert trigamma(1) == pytest.approx(math.pi**2 / 6, abs=1e-10)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2, abs=1e-10)


@given(POSITIVE)
def test_derivatives_obey_the_recurrence_and_invert(x: float) -> None:
    assert digamma(x + 1) == pytest.approx(digamma(x) + 1 / x, rel=1e-8, abs=1e-8)
    assert trigamma(x + 1) == pytest.approx(trigamma(x) - 1 / (x * x), rel=1e-8, abs=1e-8)
    assert trigamma_inverse(trigamma(x)) == pytest.approx(x, rel=1e-6)
