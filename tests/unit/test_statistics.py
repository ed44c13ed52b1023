"""Percentiles, throughput, and what can be said of samples as a series."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sweep.statistics import bootstrap_interval, drift, outliers, percentile, timing

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


def correlated(generator: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """Normal samples with mean 100 and variance 1, each correlated with the one before."""
    noise = generator.normal(size=count) * math.sqrt(1 - correlation**2)
    noise[0] = generator.normal()
    for place in range(1, count):
        noise[place] += correlation * noise[place - 1]
    return 100 + noise


@pytest.mark.parametrize("statistic", ["median", "mean"])
@pytest.mark.parametrize(("correlation", "least"), [(0.0, 0.9), (0.6, 0.82), (0.8, 0.78)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    statistic: str, correlation: float, least: float
) -> None:
    generator = np.random.default_rng(20)
    rounds = 200
    held = 0
    for seed in range(rounds):
        samples = correlated(generator, 200, correlation)
        low, high = bootstrap_interval(samples.tolist(), statistic, resamples=300, seed=seed)
        held += low <= 100 <= high
    assert least <= held / rounds <= 0.99


@settings(max_examples=50)
@given(SAMPLES, st.sampled_from(["median", "mean", "p0", "p90", "p100"]), st.integers(0, 9))
def test_an_interval_lies_among_the_samples_and_is_repeatable(
    samples: list[int], statistic: str, seed: int
) -> None:
    low, high = bootstrap_interval(samples, statistic, resamples=50, seed=seed)
    assert min(samples) * (1 - 1e-12) <= low <= high <= max(samples) * (1 + 1e-12)
    assert (low, high) == bootstrap_interval(samples, statistic, resamples=50, seed=seed)
    narrow = bootstrap_interval(samples, statistic, confidence=0.5, resamples=50, seed=seed)
    assert low <= narrow[0] <= narrow[1] <= high


def test_many_samples_are_resampled_in_parts() -> None:
    samples = np.random.default_rng(1).normal(100, 1, 300_000)
    low, high = bootstrap_interval(samples.tolist(), "mean", resamples=40)
    assert low < samples.mean() < high
    assert high - low < 0.02


@pytest.mark.parametrize(
    ("samples", "arguments"),
    [
        ([], {}),
        ([1.0, math.nan], {}),
        ([1.0, math.inf], {}),
        ([1.0], {"confidence": 1.0}),
        ([1.0], {"confidence": math.nan}),
        ([1.0], {"resamples": 0}),
        ([1.0], {"statistic": "p101"}),
        ([1.0], {"statistic": "mode"}),
        ([1.0], {"statistic": "90"}),
    ],
)
def test_an_interval_of_nonsense_is_refused(samples: list[float], arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"sample|confidence|statistic"):
        bootstrap_interval(samples, **arguments)


def test_samples_that_get_slower_drift() -> None:
    generator = np.random.default_rng(2)
    for count in (30, 200, 5000):
        samples = np.linspace(1.0, 1.1, count) * generator.normal(100, 1, count)
        found = drift(samples.tolist())
        assert found.significant
        assert found.change == pytest.approx(0.1 / 1.05, rel=0.2)
        back = drift(samples[::-1].tolist())
        assert back.change == pytest.approx(-found.change, rel=1e-6)
        assert back.p_value == pytest.approx(found.p_value)


@pytest.mark.parametrize(("count", "correlation"), [(30, 0.0), (200, 0.0), (4000, 0.0), (4000, 0.6)])
def test_samples_that_only_vary_seldom_drift(count: int, correlation: float) -> None:
    generator = np.random.default_rng(3)
    found = [drift(correlated(generator, count, correlation).tolist()).significant for _ in range(200)]
    assert sum(found) <= 10  # two are expected, more where some correlation is left


@given(SAMPLES)
def test_drift_has_the_sign_of_a_trend(samples: list[int]) -> None:
    found = drift(samples)
    assert 0 <= found.p_value <= 1
    assert drift(sorted(samples)).change >= 0 >= drift(sorted(samples, reverse=True)).change
    assert drift([samples[0]] * len(samples)).p_value == 1


def test_mann_kendall_by_hand() -> None:
    """Nine of ten pairs grow, one is tied; the variance is (5 * 4 * 15 - 2 * 1 * 9) / 18."""
    found = drift([10, 11, 11, 13, 15])
    assert found.p_value == pytest.approx(math.erfc(8 / math.sqrt(2 * (300 - 18) / 18)))
    assert found.change == pytest.approx(1.125 * 4 / 11)
    assert not found.significant


@pytest.mark.parametrize("samples", [[], [0.0, 1.0], [-1.0], [math.nan]])
def test_drift_of_nonsense_is_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="sample"):
        drift(samples)


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
