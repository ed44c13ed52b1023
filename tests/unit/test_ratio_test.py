"""Which of many cells became slower: how often that is said wrongly, and how often missed.

`tests/benchmarks/compare_power.py` has the same for more cells, rounds and noises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series import processes, with_outliers

from harness.measure.ratio_test import TimeRatio, holm, time_ratios, typical_time, why_untested

ROUNDS = st.lists(st.lists(st.integers(1, 10**12), min_size=1, max_size=3), min_size=3, max_size=5)
CELLS = st.lists(st.tuples(ROUNDS, ROUNDS), min_size=1, max_size=3)
P_VALUES = st.lists(st.floats(0, 1), max_size=20)


def compared(
    generator: np.random.Generator,
    slower: float = 1.0,
    *,
    cells: int = 12,
    rounds: tuple[int, int] = (6, 6),
    noise: tuple[float, float] = (0.02, 0.02),
) -> list[bool]:
    """Which cells differ significantly, the first of which takes `slower` times as long in B."""
    pairs = []
    for cell in range(cells):
        a, b = (
            with_outliers(generator, processes(generator, number, 10, offsets))
            for number, offsets in zip(rounds, noise, strict=True)
        )
        pairs.append((a.tolist(), (b * (1.0 if cell else slower)).tolist()))
    return [p_value <= 0.05 for p_value in holm([ratio.p_value for ratio in time_ratios(pairs)])]


def test_alike_runs_differ_in_at_most_a_twentieth_of_comparisons() -> None:
    generator = np.random.default_rng(5)
    assert np.mean([any(compared(generator)) for _ in range(200)]) <= 0.05


@pytest.mark.parametrize(
    ("rounds", "noise"),
    [((3, 10), (0.04, 0.02)), ((6, 6), (0.02, 0.04))],
)
def test_unequal_rounds_and_noise_raise_few_false_alarms(
    rounds: tuple[int, int], noise: tuple[float, float]
) -> None:
    generator = np.random.default_rng(6)
    alarms = [any(compared(generator, rounds=rounds, noise=noise)) for _ in range(200)]
    assert np.mean(alarms) <= 0.08


# With 12 cells and 2 % no test can find more than 91 % at this rate of false alarms (docs/compare.md).
@pytest.mark.parametrize(
    ("cells", "rounds", "noise", "least"),
    [(12, 6, 0.01, 0.95), (1, 6, 0.02, 0.9), (12, 6, 0.02, 0.8), (12, 3, 0.01, 0.9)],
)
def test_a_cell_that_takes_five_percent_longer_is_found(
    cells: int, rounds: int, noise: float, least: float
) -> None:
    generator = np.random.default_rng(7)
    found = [
        compared(generator, 1.05, cells=cells, rounds=(rounds, rounds), noise=(noise, noise))[0]
        for _ in range(200)
    ]
    assert np.mean(found) >= least


@pytest.mark.parametrize("rounds", [3, 6])
def test_the_interval_holds_the_ratio(rounds: int) -> None:
    generator = np.random.default_rng(8)
    held = []
    for _ in range(30):
        pairs = [[processes(generator, rounds, 10, 0.02) for _ in range(2)] for _ in range(12)]
        ratios = time_ratios([(a.tolist(), (1.2 * b).tolist()) for a, b in pairs])
        held += [ratio.low <= 1.2 <= ratio.high for ratio in ratios]
    assert 0.93 <= np.mean(held) <= 0.98


@settings(max_examples=40)
@given(CELLS)
def test_a_cell_never_differs_from_itself(cells: Sequence[tuple[list[list[int]], list[list[int]]]]) -> None:
    for ratio in time_ratios([(a, a) for a, _ in cells]):
        assert (ratio.ratio, ratio.p_value, ratio.effect_size) == (1, 1, 0)
        assert ratio.low < 1 < ratio.high


@settings(max_examples=40)
@given(CELLS)
def test_exchanged_sides_invert_ratio_and_interval(
    cells: Sequence[tuple[list[list[int]], list[list[int]]]],
) -> None:
    pairs = zip(time_ratios(cells), time_ratios([(b, a) for a, b in cells]), strict=True)
    for one, other in pairs:
        assert one.ratio * other.ratio == pytest.approx(1)
        assert math.log(one.low) == pytest.approx(-math.log(other.high), rel=1e-9, abs=1e-9)
        assert math.log(one.high) == pytest.approx(-math.log(other.low), rel=1e-9, abs=1e-9)
        assert one.p_value == pytest.approx(other.p_value)
        assert one.effect_size == pytest.approx(-other.effect_size)


@settings(max_examples=40)
@given(CELLS, st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(
    cells: Sequence[tuple[list[list[int]], list[list[int]]]], factor: float
) -> None:
    scaled = [
        tuple([[factor * sample for sample in each] for each in side] for side in cell) for cell in cells
    ]
    for one, other in zip(time_ratios(cells), time_ratios([(a, b) for a, b in scaled]), strict=True):
        assert vars(one) == pytest.approx(vars(other), rel=1e-4, abs=1e-6)


@settings(max_examples=40)
@given(CELLS)
def test_a_significant_interval_is_beside_1(
    cells: Sequence[tuple[list[list[int]], list[list[int]]]],
) -> None:
    for ratio in time_ratios(cells):
        assert ratio.low < ratio.ratio < ratio.high
        assert 0 <= ratio.p_value <= 1
        if abs(ratio.p_value - 0.05) > 1e-6:
            assert (ratio.p_value < 0.05) == (not ratio.low <= 1 <= ratio.high)


def test_one_cell_by_hand() -> None:
    """Welch's test of the logarithms 0, 1, 2 against 2, 3, 4: 2 standard deviations of 1, 4 degrees."""
    a, b = ([[math.e**level] * 2 for level in levels] for levels in ((0, 1, 2), (2, 3, 4)))
    (found,) = time_ratios([(a, b)])
    assert found.ratio == pytest.approx(math.e**2)
    assert found.effect_size == pytest.approx(2)
    assert found.p_value == pytest.approx(0.070484, abs=1e-6)  # t = 2.44949
    assert math.log(found.high) - 2 == pytest.approx(2.776445 * math.sqrt(2 / 3), abs=1e-5)
    assert typical_time(a) == pytest.approx(math.e)


def test_other_cells_make_the_variance_of_few_rounds_more_certain() -> None:
    generator = np.random.default_rng(9)
    cells = [
        (processes(generator, 3, 10, 0.01).tolist(), (1.05 * processes(generator, 3, 10, 0.01)).tolist())
        for _ in range(12)
    ]
    alone = [time_ratios([cell])[0] for cell in cells]
    together = time_ratios(cells)
    width = np.mean([math.log(ratio.high / ratio.low) for ratio in together])
    assert width < 0.8 * np.mean([math.log(ratio.high / ratio.low) for ratio in alone])


def test_rounds_without_any_noise_are_compared() -> None:
    (same,) = time_ratios([([[5]] * 3, [[5]] * 3)])
    (slower,) = time_ratios([([[5]] * 3, [[6]] * 3)])
    assert same == TimeRatio(ratio=1, low=same.low, high=same.high, p_value=1, effect_size=0)
    assert slower.p_value < 1e-6
    assert slower.low == pytest.approx(1.2, rel=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [(3, 3, None), (2, 3, "2 in A, at"), (9, 1, "1 in B, at"), (2, 2, "2, at"), (0, 0, "0, at")],
)
def test_fewer_than_three_rounds_are_not_tested(a: int, b: int, why: str | None) -> None:
    found = why_untested(a, b)
    assert found == (why and f"too few rounds: {why} least 3 are needed")
    if found and a and b:
        with pytest.raises(ValueError, match="too few rounds"):
            time_ratios([([[1]] * a, [[1]] * b)])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(P_VALUES)
def test_adjusted_p_values_keep_their_order_and_only_grow(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= more <= 1 for p, more in zip(p_values, adjusted, strict=True))
    by_p = [more for _, more in sorted(zip(p_values, adjusted, strict=True))]
    assert by_p == sorted(by_p)
