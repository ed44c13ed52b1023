"""Intervals of percentiles: how often they hold the truth."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series import correlated, processes

from harness.measure.intervals import (
    MeanTime,
    mean_time,
    percentile_intervals,
    ratio_interval,
    speed_interval,
    why_no_interval,
)
from harness.measure.statistics import percentile

SAMPLES = st.lists(st.integers(1, 10**12), min_size=1, max_size=50)


def held(rounds: np.ndarray, percent: float, truth: float) -> bool:
    (interval,) = percentile_intervals(rounds.tolist(), [percent])
    assert interval
    return interval[0] <= truth <= interval[1]


@pytest.mark.parametrize("offsets", [0, 0.01, 0.02, 0.03, 0.05])
@pytest.mark.parametrize("count", [4, 30, 100])
def test_the_median_of_all_processes_is_within_reach_of_three(offsets: float, count: int) -> None:
    generator = np.random.default_rng(20)
    found = [held(processes(generator, 3, count, offsets), 50, 100) for _ in range(400)]
    assert 0.92 <= np.mean(found) <= 0.98


@pytest.mark.parametrize(("offsets", "least"), [(0, 0.9), (0.01, 0.83), (0.05, 0.8)])
def test_p90_of_all_processes_is_mostly_within_reach_of_three(offsets: float, least: float) -> None:
    generator = np.random.default_rng(21)
    truth = 100 * (1 + 1.28155 * math.hypot(offsets, 0.005))
    found = [held(processes(generator, 3, 30, offsets), 90, truth) for _ in range(300)]
    assert least <= np.mean(found) <= 0.99


@pytest.mark.parametrize(
    ("count", "correlation", "least"),
    [(10, 0.0, 0.84), (30, 0.0, 0.9), (200, 0.0, 0.9), (200, 0.6, 0.86), (200, 0.8, 0.83), (1000, 0.6, 0.88)],
)
def test_one_process_tells_of_its_own_percentiles(count: int, correlation: float, least: float) -> None:
    generator = np.random.default_rng(22)
    found = []
    for _ in range(150):
        samples = correlated(generator, count, correlation)[None]
        found.append([held(samples, 50, 100), held(samples, 90, 101.28155)])
    assert all(least <= share <= 0.99 for share in np.mean(found, axis=0))


def test_p99_is_in_its_interval_where_there_are_enough_samples() -> None:
    generator = np.random.default_rng(23)
    found = [held(generator.lognormal(0, 0.1, (1, 1000)), 99, math.exp(0.232635)) for _ in range(150)]
    assert 0.87 <= np.mean(found) <= 0.98


@pytest.mark.parametrize(("percent", "needed"), [(50, 4), (90, 10), (99, 100)])
@pytest.mark.parametrize("rounds", [1, 3])
def test_too_few_samples_have_no_interval(percent: float, needed: int, rounds: int) -> None:
    samples = [[100.0 + number for number in range(each, needed, rounds)] for each in range(rounds)]
    assert percentile_intervals(samples, [percent]) != [None]
    if percent != 50:
        assert percentile_intervals([samples[0][1:], *samples[1:]], [percent]) == [None]
    assert percentile_intervals([[5.0]], [percent]) == [None]


@given(st.lists(SAMPLES, min_size=1, max_size=5))
def test_an_interval_is_around_the_percentile_and_repeatable(rounds: list[list[int]]) -> None:
    pooled = [sample for each in rounds for sample in each]
    found = percentile_intervals(rounds, [50, 90])
    assert found == percentile_intervals(rounds, [50, 90])
    for percent, interval in zip((50, 90), found, strict=True):
        if interval:
            assert 0 < interval[0] <= percentile(pooled, percent) * (1 + 1e-12)
            assert percentile(pooled, percent) <= interval[1] * (1 + 1e-12)


@given(st.lists(SAMPLES, min_size=1, max_size=5), st.floats(1e-3, 1e3))
def test_an_interval_scales_with_the_samples(rounds: list[list[int]], factor: float) -> None:
    scaled = percentile_intervals([[factor * sample for sample in each] for each in rounds], [50])
    for one, other in zip(percentile_intervals(rounds, [50]), scaled, strict=True):
        assert (one is None) == (other is None)
        if one and other:
            assert [factor * end for end in one] == pytest.approx(list(other), rel=1e-6)


def test_three_rounds_by_hand() -> None:
    (interval,) = percentile_intervals([[1.0, 2.0, 4.0], [2.0, 2.0], [4.0]], [50])
    # Their medians are 2, 2 and 4; logarithms to base 2: 1, 1 and 2, with a standard error of 1 / 3.
    assert interval
    assert interval == pytest.approx((2 / 2 ** (4.3027 / 3), 2 * 2 ** (4.3027 / 3)))
    assert percentile_intervals([[3.0, 3.0], [3.0], [3.0]], [50]) == [(3.0, 3.0)]


def test_half_an_hour_of_samples_takes_no_time() -> None:
    samples = np.random.default_rng(1).normal(100, 1, 900_000).tolist()
    begin = time.process_time()
    (p50, p99) = percentile_intervals([samples], [50, 99])
    assert time.process_time() - begin < 5
    assert p50
    assert p99
    assert p50[1] - p50[0] < 0.02
    assert p99[0] < 102.326 < p99[1]
    assert p99[1] - p99[0] < 0.05


@pytest.mark.parametrize("rounds", [[], [[]], [[1.0], []], [[1.0, math.nan]], [[math.inf]], [[0.0, 1.0]]])
def test_intervals_of_nonsense_are_refused(rounds: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"sample|rounds"):
        percentile_intervals(rounds, [50])


def test_two_rounds_say_nothing_of_a_third() -> None:
    rounds = [[0.15 + number / 100 for number in range(60)], [8.5 + number / 100 for number in range(60)]]
    assert percentile_intervals(rounds, [50, 90, 99]) == [None] * 3
    for percent in (50, 90, 99):
        assert why_no_interval(rounds, percent) == "too few rounds: 2, at least 3 are needed"
    assert mean_time(rounds) is None


@given(st.lists(SAMPLES, min_size=1, max_size=4), st.sampled_from([50, 90, 99]))
def test_there_is_an_interval_or_a_reason(rounds: list[list[int]], percent: float) -> None:
    (interval,) = percentile_intervals(rounds, [percent])
    assert (interval is None) == (why_no_interval(rounds, percent) is not None)


@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize("offsets", [0.002, 0.02])
def test_how_many_times_as_fast_a_cell_is_is_within_reach_of_three_rounds_each(
    ratio: float, offsets: float
) -> None:
    generator = np.random.default_rng(24)
    found = []
    for _ in range(400):
        one, other = (mean_time(processes(generator, 3, 30, offsets).tolist()) for _ in range(2))
        assert one
        assert other
        low, high = ratio_interval(one, MeanTime(other.log + math.log(ratio), other.error, other.freedom))
        found.append(low <= ratio <= high)
        lowest, highest = speed_interval(one)
        assert lowest < math.exp(-one.log) < highest
    assert 0.93 <= np.mean(found) <= 1


def test_one_round_tells_of_its_own_mean() -> None:
    generator = np.random.default_rng(25)
    found = []
    for _ in range(300):
        time = mean_time(correlated(generator, 200, 0.6)[None].tolist())
        assert time
        low, high = speed_interval(time)
        found.append(low <= 1 / 100 <= high)
    assert 0.85 <= np.mean(found) <= 0.99
    assert mean_time([[1.0, 2.0]]) is None
