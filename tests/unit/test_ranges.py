"""Ranges for int8: the properties of each method."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.accuracy.ranges import METHODS, Histogram, choose


def histogram(values: npt.NDArray[np.float64]) -> Histogram:
    single = values.astype(np.float32)
    return Histogram.over(float(single.min()), float(single.max())).plus(single)


def quantisation_error(values: npt.NDArray[np.float64], low: float, high: float) -> float:
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / 255
    zero = np.round(-128 - low / step)
    rounded = (np.clip(np.round(values / step) + zero, -128, 127) - zero) * step
    return float(((values - rounded) ** 2).mean())


NORMAL = np.random.default_rng(1).normal(0, 1, 20_000)
WITH_OUTLIERS = np.concatenate([NORMAL, [60.0, -20.0]])


def test_minmax_covers_everything() -> None:
    assert choose("minmax", histogram(WITH_OUTLIERS)) == (-20.0, 60.0)


def test_percentile_leaves_out_one_in_ten_thousand_at_either_end() -> None:
    low, high = choose("percentile", histogram(WITH_OUTLIERS))
    assert low == pytest.approx(np.quantile(WITH_OUTLIERS, 1e-4), abs=0.5)
    assert high == pytest.approx(np.quantile(WITH_OUTLIERS, 1 - 1e-4), abs=0.5)


def test_mse_is_close_to_the_best_of_all_ranges() -> None:
    low, high = choose("mse", histogram(WITH_OUTLIERS))
    error = quantisation_error(WITH_OUTLIERS, low, high)
    best = min(
        quantisation_error(WITH_OUTLIERS, a, b)
        for a in np.linspace(-20, -1, 20)
        for b in np.linspace(1, 60, 60)[:12]
    )
    assert error <= 1.1 * best
    assert error < quantisation_error(WITH_OUTLIERS, -20, 60)


def test_mse_keeps_the_whole_of_a_flat_distribution() -> None:
    assert choose("mse", histogram(np.linspace(-1, 1, 50_000))) == pytest.approx((-1, 1), abs=0.02)


def test_kl_cuts_a_long_thin_tail_and_keeps_a_flat_distribution() -> None:
    tail = np.concatenate([NORMAL, np.linspace(5, 60, 50)])
    low, high = choose("kl", histogram(tail))
    assert 2 < high < 20
    assert low == pytest.approx(max(tail.min(), -high))  # one threshold for both signs
    _, flat = choose("kl", histogram(np.linspace(0, 1, 50_000)))
    assert flat > 0.95


def test_many_zeros_do_not_make_kl_cut_more() -> None:
    magnitudes = np.abs(NORMAL)
    half_zero = np.concatenate([magnitudes, np.zeros(len(magnitudes))])
    assert choose("kl", histogram(half_zero)) == pytest.approx(choose("kl", histogram(magnitudes)), abs=0.01)


def test_values_beyond_the_ends_are_counted_at_the_ends() -> None:
    counted = Histogram.over(0.0, 1.0).plus(np.array([-5, 0, 0.5, 1, 7], np.float32))
    assert counted.counts.sum() == 5
    assert (counted.counts[0], counted.counts[-1]) == (2, 2)


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_tensor_keeps_its_value(method: str) -> None:
    assert choose(method, histogram(np.full(10, 3.0))) == (3.0, 3.0)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(METHODS),
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=50).filter(
        lambda v: max(v) - min(v) > 1e-3
    ),
)
def test_a_chosen_range_lies_within_the_values(method: str, values: list[float]) -> None:
    array = np.array(values)
    low, high = choose(method, histogram(array))
    slack = 1e-6 * (array.max() - array.min())
    assert array.min() - slack <= low <= high <= array.max() + slack


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_without_negative_values_keeps_zero_in_its_range(method: str) -> None:
    low, high = choose(method, histogram(np.abs(NORMAL)))
    assert low <= 0.01
    assert high > 2
