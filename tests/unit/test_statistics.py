"""Percentiles, throughput, drift and outliers of samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series import correlated, processes

from harness.measure.statistics import SIGNIFICANT, drift, outliers, percentile, timing

SAMPLES = st.lists(st.integers(1, 10**12), min_size=1, max_size=50)


def test_frames_over_time_is_not_the_mean_of_rates() -> None:
    found = timing([1_000_000, 3_000_000])
    assert found.fps == 500
    assert found.p50_ms == 2
    assert found.p90_ms == pytest.approx(2.8)


@given(SAMPLES)
def test_percentiles_agree_with_numpy(samples: list[int]) -> None:
    for percent in (0, 10, 50, 90, 99, 100):
        assert percentile(samples, percent) == pytest.approx(np.percentile(samples, percent), rel=1e-12)


@given(SAMPLES)
def test_percentiles_are_ordered(samples: list[int]) -> None:
    found = timing(samples)
    assert (
        min(samples) / 1e6 <= found.p50_ms <= found.p90_ms <= found.p99_ms <= max(samples) / 1e6 * (1 + 1e-12)
    )


@pytest.mark.parametrize("samples", [[], [0], [5, -1]])
def test_samples_without_time_are_refused(samples: list[int]) -> None:
    with pytest.raises(ValueError, match="sample"):
        timing(samples)
    if not samples:
        with pytest.raises(ValueError, match="sample"):
            percentile(samples, 50)


def test_samples_that_get_slower_drift() -> None:
    generator = np.random.default_rng(2)
    for count in (30, 200, 5000):
        samples = np.linspace(1.0, 1.1, count) * generator.normal(100, 1, count)
        found = drift([samples.tolist()])
        assert found.significant
        assert found.change == pytest.approx(0.1 / 1.05, rel=0.2)
        back = drift([samples[::-1].tolist()])
        assert back.change == pytest.approx(-found.change, rel=1e-6)
        assert back.p_value == pytest.approx(found.p_value)


@pytest.mark.parametrize(
    ("count", "correlation", "most"), [(30, 0, 5), (200, 0, 5), (4000, 0, 5), (4000, 0.6, 20)]
)
def test_samples_that_only_vary_seldom_have_a_trend(count: int, correlation: float, most: int) -> None:
    generator = np.random.default_rng(3)
    found = [drift([correlated(generator, count, correlation).tolist()]) for _ in range(200)]
    assert sum(each.p_value < SIGNIFICANT for each in found) <= most  # two are expected, where none correlate


@pytest.mark.parametrize("rounds", [3, 6])
@pytest.mark.parametrize("count", [4, 30])
def test_processes_that_differ_do_not_drift(rounds: int, count: int) -> None:
    generator = np.random.default_rng(4)
    found = [
        drift(processes(generator, rounds, count, offsets).tolist()).significant
        for offsets in (0.01, 0.02, 0.03, 0.05)
        for _ in range(50)
    ]
    assert sum(found) <= 4  # 2 %


@pytest.mark.parametrize("change", [0.05, -0.05])
@pytest.mark.parametrize("count", [4, 10, 30])
def test_a_drift_within_rounds_is_found_though_they_differ(count: int, change: float) -> None:
    generator = np.random.default_rng(5)
    slower = np.linspace(1, 1 + change, count)
    found = [drift((slower * processes(generator, 3, count, 0.03)).tolist()) for _ in range(50)]
    assert sum(each.significant for each in found) >= 45
    assert np.mean([each.change for each in found]) == pytest.approx(change, rel=0.1)


def test_a_drift_from_round_to_round_is_found_where_there_are_enough() -> None:
    generator = np.random.default_rng(6)
    for rounds, enough in ((3, False), (5, False), (6, True), (9, True)):
        slower = np.linspace(1, 1.06, rounds)[:, None]
        found = drift((slower * processes(generator, rounds, 10, 0)).tolist())
        assert found.significant == enough
        if enough:
            assert found.change == pytest.approx(0.06 / 1.03, rel=0.1)


@given(SAMPLES)
def test_drift_has_the_sign_of_a_trend(samples: list[int]) -> None:
    found = drift([samples])
    assert 0 <= found.p_value <= 1
    assert drift([sorted(samples)]).change >= 0 >= drift([sorted(samples, reverse=True)]).change
    assert drift([[samples[0]] * len(samples)]).p_value == 1


@given(st.lists(SAMPLES, min_size=1, max_size=5), st.integers(2, 9))
def test_a_rounds_level_is_no_drift(rounds: list[list[int]], factor: int) -> None:
    found = drift(rounds)
    levelled = drift([[factor**number * sample for sample in each] for number, each in enumerate(rounds)])
    assert levelled.p_value == pytest.approx(found.p_value)
    assert levelled.change == pytest.approx(found.change, abs=1e-9)


def test_mann_kendall_by_hand() -> None:
    """Nine of ten pairs grow, one is tied; the variance is (5 * 4 * 15 - 2 * 1 * 9) / 18."""
    variance = (300 - 18) / 18
    found = drift([[10, 11, 11, 13, 15]])
    assert found.p_value == pytest.approx(math.erfc(8 / math.sqrt(2 * variance)))
    assert found.change == pytest.approx(1.125 * 4 / 11)
    assert not found.significant
    # A second round of three adds a score of -1 and a variance of 3 * 2 * 11 / 18.
    found = drift([[10, 11, 11, 13, 15], [7, 9, 5]])
    assert found.p_value == pytest.approx(math.erfc(7 / math.sqrt(2 * (variance + 66 / 18))))


@pytest.mark.parametrize("rounds", [[], [[]], [[1.0], []], [[0.0, 1.0]], [[1.0], [-1.0]], [[math.nan]]])
def test_drift_of_nonsense_is_refused(rounds: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="sample"):
        drift(rounds)


def test_outliers_are_named_by_their_place() -> None:
    assert outliers([10, 11, 10, 12, 11, 40, 10, -20]) == [5, 7]
    assert outliers([10] * 20 + [11]) == [20]  # the median distance is nothing
    assert outliers([10, 10, 10]) == []
    # 3.5 / 0.6745 times the median distance of 1 is 5.19.
    assert outliers([9, 11, 9, 11, 9, 11, 10, 10, 15.1]) == []
    assert outliers([9, 11, 9, 11, 9, 11, 10, 10, 15.3]) == [8]
    with pytest.raises(ValueError, match="sample"):
        outliers([])


@given(SAMPLES)
def test_less_than_half_are_outliers_and_they_are_the_farthest(samples: list[int]) -> None:
    middle = float(np.median(samples))
    found = set(outliers(samples))
    assert len(found) < len(samples) / 2
    inside = [abs(value - middle) for place, value in enumerate(samples) if place not in found]
    assert all(abs(samples[place] - middle) > max(inside) for place in found)
