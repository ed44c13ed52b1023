"""Fitting a board's coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import BOARD

from harness.config.board_data import Coefficients
from harness.errors import ConfigurationError
from harness.prediction.fit import Measurement, errors_of, fit, fit_memory, fit_together
from harness.prediction.model import Work, features


def measured(name: str, cycles: float, bytes_moved: int, milliseconds: float | None = None) -> Measurement:
    """A measurement; by default of a board with the coefficients 1.25 and 0.5."""
    work = Work(instructions=0, cycles=cycles, bytes_moved=bytes_moved)
    compute, memory = features(work, BOARD)
    return Measurement(name=name, work=work, milliseconds=milliseconds or 1.25 * compute + 0.5 * memory)


EXACT = [measured(str(i), 1e6 * (i + 1), 1000 * (i * i + 3)) for i in range(6)]


def test_coefficients_of_exact_times_are_recovered() -> None:
    found = fit(EXACT, BOARD, 1, "a test")
    assert (found.coefficients.compute, found.coefficients.memory) == pytest.approx((1.25, 0.5))
    assert found.coefficients.error_p90 == pytest.approx(0, abs=1e-9)
    assert found.coefficients.fitted_on == "a test"
    assert set(found.errors) == {measurement.name for measurement in EXACT}


def test_the_fit_is_robust_to_an_outlier() -> None:
    off = measured("off", 3e6, 9000, milliseconds=40.0)
    found = fit([*EXACT, off], BOARD, 1, "a test")
    assert (found.coefficients.compute, found.coefficients.memory) == pytest.approx((1.25, 0.5))
    assert found.errors["off"] == pytest.approx(off_prediction(off) / 40.0 - 1)
    assert found.coefficients.median_error == pytest.approx(0, abs=1e-9)
    assert found.coefficients.error_p90 == pytest.approx(abs(found.errors["off"]))


def off_prediction(off: Measurement) -> float:
    compute, memory = features(off.work, BOARD)
    return 1.25 * compute + 0.5 * memory


def test_a_coefficient_is_never_negative() -> None:
    # The more it moves, the less it takes: memory cannot have cost anything.
    times = [measured(str(i), 1e6, 1000 * (i + 1), milliseconds=2.0 - 0.2 * i) for i in range(5)]
    found = fit(times, BOARD, 1, "a test").coefficients
    assert found.memory == 0
    assert found.compute == pytest.approx(1.6)


def test_without_memory_traffic_the_memory_coefficient_is_zero() -> None:
    found = fit([measured(str(i), 1e6 * (i + 1), 0) for i in range(4)], BOARD, 1, "a test").coefficients
    assert (found.compute, found.memory) == pytest.approx((1.25, 0))


def test_threads_divide_the_cycles() -> None:
    found = fit(EXACT, BOARD, 2, "a test").coefficients
    assert (found.compute, found.memory) == pytest.approx((2.5, 0.5))


def test_too_few_times_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="3 measured times are too few"):
        fit(EXACT[:3], BOARD, 1, "a test")


def divided(name: str, cycles: float, bytes_moved: int) -> Measurement:
    """A measurement of two threads, each with so many cycles, with the coefficients 1.25 and 0.8."""
    work = Work(instructions=0, cycles=cycles, bytes_moved=bytes_moved, threads=2)
    compute, memory = features(work, BOARD, 2)
    return Measurement(name=name, work=work, milliseconds=1.25 * compute + 0.8 * memory)


def test_memory_is_fitted_to_threads_that_compute_as_fast_as_one() -> None:
    times = [divided(str(i), 1e6 * (i + 1), 1000 * (i * i + 3)) for i in range(6)]
    found = fit_memory(times, BOARD, 2, 1.25, "a test")
    assert (found.coefficients.compute, found.coefficients.memory) == pytest.approx((1.25, 0.8))
    assert found.errors == pytest.approx({str(i): 0.0 for i in range(6)}, abs=1e-9)
    assert found.coefficients.error_p90 == pytest.approx(0.0, abs=1e-9)
    outlier = replace(times[2], name="off", milliseconds=4 * times[2].milliseconds)
    again = fit_memory([*times, outlier], BOARD, 2, 1.25, "a test")
    assert again.coefficients.memory == pytest.approx(0.8)
    assert again.errors["off"] == pytest.approx(-0.75)


def test_the_coefficient_of_memory_is_never_negative() -> None:
    times = [divided(str(i), 1e6 * (i + 1), 1000) for i in range(4)]
    assert fit_memory(times, BOARD, 2, 2.0, "a test").coefficients.memory == 0
    none_moved = [replace(time, work=replace(time.work, bytes_moved=0)) for time in times]
    assert fit_memory(none_moved, BOARD, 2, 1.0, "a test").coefficients.memory == 0


def test_too_few_times_of_several_threads_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="3 measured times of 2 threads are too few"):
        fit_memory(EXACT[:3], BOARD, 2, 1.0, "a test")


def test_other_coefficients_have_other_errors() -> None:
    doubled = Coefficients(compute=2.5, memory=1.0)
    errors = errors_of(doubled, EXACT, BOARD, 1)
    assert errors == pytest.approx({measurement.name: 1.0 for measurement in EXACT})
    assert errors_of(doubled, [], BOARD, 1) == {}


def test_boards_are_fitted_together() -> None:
    found = fit_together([(EXACT[:3], BOARD), (EXACT[3:], BOARD)], 1)
    assert (found.compute, found.memory) == pytest.approx((1.25, 0.5))
    assert not found.validated


amounts = st.floats(min_value=1e3, max_value=1e9)
times = st.lists(
    st.tuples(amounts, amounts, st.floats(min_value=0.01, max_value=1e4)), min_size=4, max_size=8
)


@given(times)
def test_no_other_coefficients_make_a_smaller_sum_of_errors(rows: list[tuple[float, float, float]]) -> None:
    measurements = [
        measured(str(i), cycles, int(moved), milliseconds)
        for i, (cycles, moved, milliseconds) in enumerate(rows)
    ]
    found = fit(measurements, BOARD, 1, "a test").coefficients
    parts = np.array([features(measurement.work, BOARD) for measurement in measurements])
    shares = parts / np.array([[measurement.milliseconds] for measurement in measurements])
    least = np.abs(shares @ (found.compute, found.memory) - 1).sum()
    assert min(found.compute, found.memory) >= 0
    for compute in (0.0, 0.9, 1.1):
        for memory in (0.0, 0.9, 1.1):
            other = np.abs(shares @ (compute * found.compute, memory * found.memory) - 1).sum()
            assert least <= other + 1e-9
