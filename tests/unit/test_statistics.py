"""Percentiles and throughput."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sweep.statistics import percentile, timing

SAMPLES = st.lists(st.integers(1, 10**12), min_size=1, max_size=50)


def test_frames_over_time_is_not_the_mean_of_rates() -> None:
    found = timing([1_000_000, 3_000_000])
    assert found.fps == 500
    assert found.p50_ms == 2
    assert found.p90_ms == pytest.approx(2.8)


@given(SAMPLES)
def test_percentiles_agree_with_numpy(samples: list[int]) -> None:
    import numpy as np

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
