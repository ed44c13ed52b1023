"""Steps in series of which it is known where they are. tests/benchmarks/history_power.py has more of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.steps import LEAST_POINTS, levels, steps, why_unsearched

NOISE = 0.01
LEVEL = 0.05
LONGER = math.log(1.05)


def series(seed: int, count: int, *added: np.ndarray) -> list[float]:
    found: list[float] = sum(added, np.random.default_rng(seed).normal(0, NOISE, count)).tolist()
    return found


@pytest.mark.parametrize("count", [4, 8, 20, 50])
def test_constant_noise_has_no_steps_at_the_stated_rate(count: int) -> None:
    number = 400
    alarms = sum(bool(steps(series(seed, count), LEVEL)) for seed in range(number))
    # Two standard errors of a rate of 5 % from the allowed rate.
    assert alarms <= number * LEVEL + 2 * math.sqrt(number * LEVEL * (1 - LEVEL))


def test_a_step_of_five_percent_is_found_where_it_is() -> None:
    found = [steps(series(seed, 20, np.where(np.arange(20) < 12, 0, LONGER)), LEVEL) for seed in range(100)]
    assert sum(places == [12] for places in found) >= 90
    assert all(places for places in found)


def test_a_level_that_is_left_and_reached_again_has_two_steps() -> None:
    places = np.arange(15)
    middle = np.where((places >= 5) & (places < 10), LONGER, 0)
    assert sum(steps(series(seed, 15, middle), LEVEL) == [5, 10] for seed in range(100)) >= 85


def test_a_staircase_has_a_step_at_each_edge() -> None:
    values = series(3, 30, np.repeat([0, 2 * LONGER, 4 * LONGER], 10))
    assert steps(values, LEVEL) == [10, 20]
    assert levels(values, [10, 20]) == pytest.approx([0, 2 * LONGER, 4 * LONGER], abs=0.01)


def test_a_single_slow_run_is_no_step_but_a_slow_last_one_is() -> None:
    values = series(1, 20)
    values[8] += 0.5
    assert steps(values, LEVEL) == []
    values[-1] += 0.5
    assert steps(values, LEVEL) == [19]


@given(
    st.lists(st.floats(-20, 20), max_size=40),
    st.floats(-5, 5),
    st.sampled_from([0.001, 0.05, 0.5]),
)
def test_any_series_has_steps_within_it_and_none_without_scatter(
    values: list[float], offset: float, level: float
) -> None:
    found = steps(values, level)
    assert found == sorted(set(found))
    assert all(0 < place < len(values) for place in found)
    assert len(levels(values, found)) == len(found) + 1 if values else not found
    assert steps([offset] * len(values), level) == []


@given(st.integers(2, 20), st.integers(2, 20), st.floats(0.001, 3), st.booleans())
def test_a_step_without_noise_is_found_exactly(before: int, after: int, height: float, up: bool) -> None:
    values = [0.0] * before + [height if up else -height] * after
    assert steps(values, LEVEL) == [before]


def test_too_few_runs_are_not_searched() -> None:
    assert steps([0.0, 9.0, 9.0], LEVEL) == []
    assert why_unsearched(LEAST_POINTS - 1) == "too few runs: 3, at least 4 are needed"
    assert why_unsearched(LEAST_POINTS) is None
