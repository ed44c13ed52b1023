"""Chooses the range of values for int8 from a histogram, by one of four published methods.

- `minmax`: all values. Nothing is clipped, but a rare large value makes the step coarse.
- `percentile`: all values except one in ten thousand at either end.
- `kl`: the threshold with the smallest divergence between the clipped, quantised distribution of magnitudes
  and the original (Migacz, "8-bit Inference with TensorRT", GTC 2017: 2048 bins, 128 levels).
- `mse`: the range with the smallest expected squared error of clipping and rounding.

Ranges always include zero, which int8 represents exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

METHODS = ("minmax", "percentile", "kl", "mse")
BINS = 2048

_TAIL = 1e-4  # share of values that `percentile` cuts off at either end
_KL_LEVELS = 128  # magnitudes of a signed byte
_KL_STRIDE = 8  # bins between thresholds; the published method tries every bin
_MSE_STEPS = 128  # ends tried on either side
_STEPS = 255  # steps of the engine's int8 range

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts of values in equal bins from the smallest (`low`) to the largest (`high`)."""

    low: float
    high: float
    counts: Counts

    @staticmethod
    def over(low: float, high: float) -> Histogram:
        """An empty histogram."""
        return Histogram(low=low, high=high, counts=np.zeros(BINS, np.int64))

    def plus(self, values: npt.NDArray[np.float32]) -> Histogram:
        """The histogram with more values; values outside go to the end bins."""
        if self.high <= self.low:
            return self
        scaled = (values.ravel() - np.float32(self.low)) * np.float32(BINS / (self.high - self.low))
        bins = np.clip(scaled.astype(np.int32), 0, BINS - 1)
        return Histogram(low=self.low, high=self.high, counts=self.counts + np.bincount(bins, minlength=BINS))

    @property
    def edges(self) -> npt.NDArray[np.float64]:
        """The bins' borders, [BINS + 1]."""
        return np.linspace(self.low, self.high, BINS + 1)


def choose(method: str, histogram: Histogram) -> tuple[float, float]:
    """The range to cover, (min, max), inside the histogram's own."""
    if method == "minmax" or histogram.high <= histogram.low or not histogram.counts.any():
        return histogram.low, histogram.high
    return {"percentile": _percentile, "kl": _kl, "mse": _mse}[method](histogram)


def _percentile(histogram: Histogram) -> tuple[float, float]:
    below = np.concatenate([[0], np.cumsum(histogram.counts)]) / histogram.counts.sum()
    low, high = np.interp([_TAIL, 1 - _TAIL], below, histogram.edges)
    return min(float(low), 0.0) if histogram.low < 0 else histogram.low, float(high)


def _kl(histogram: Histogram) -> tuple[float, float]:
    magnitudes, width = _magnitudes(histogram)
    # Zero is exact at every threshold, and half of all values after a ReLU. Its full count would dominate, so
    # the lowest bin takes its neighbour's count.
    magnitudes[0] = magnitudes[1]
    threshold = _kl_threshold(magnitudes) * width
    return max(histogram.low, -threshold), min(histogram.high, threshold)


def _magnitudes(histogram: Histogram) -> tuple[npt.NDArray[np.float64], float]:
    """The histogram of absolute values: counts in BINS bins from zero, and a bin's width."""
    largest = max(abs(histogram.low), abs(histogram.high))
    centres = (histogram.edges[:-1] + histogram.edges[1:]) / 2
    bins = np.minimum((np.abs(centres) * (BINS / largest)).astype(np.intp), BINS - 1)
    counts = np.zeros(BINS)
    np.add.at(counts, bins, histogram.counts)
    return counts, largest / BINS


def _kl_threshold(counts: npt.NDArray[np.float64]) -> float:
    """The number of bins, from zero up, to keep."""
    total = counts.sum()
    best, chosen = np.inf, float(BINS)
    for kept in range(_KL_LEVELS, BINS + 1, _KL_STRIDE):
        inside = counts[:kept]
        reference = inside.copy()
        reference[-1] += total - inside.sum()  # clipped values go to the end
        # Each level is the mean of its bins, spread over the bins that are not empty.
        starts = np.arange(_KL_LEVELS) * kept // _KL_LEVELS
        sums = np.add.reduceat(inside, starts)
        filled = np.add.reduceat((inside > 0).astype(np.float64), starts)
        means = np.divide(sums, filled, out=np.zeros_like(sums), where=filled > 0)
        quantised = np.where(inside > 0, np.repeat(means, np.diff(np.append(starts, kept))), 0)
        present = reference > 0
        if (quantised[present] == 0).any():
            continue  # infinite divergence
        divergence = (
            reference[present] * np.log(reference[present] / quantised[present] * quantised.sum() / total)
        ).sum()
        if divergence < best:
            best, chosen = divergence, kept + 0.5
    return min(chosen, float(BINS))


def _mse(histogram: Histogram) -> tuple[float, float]:
    centres = (histogram.edges[:-1] + histogram.edges[1:]) / 2
    fractions = np.arange(1, _MSE_STEPS + 1) / _MSE_STEPS
    lows = histogram.low * fractions if histogram.low < 0 else np.array([histogram.low])
    highs = histogram.high * fractions if histogram.high > 0 else np.array([histogram.high])
    counts = histogram.counts.astype(np.float64)
    clipped_low = (np.maximum(lows[:, None] - centres, 0) ** 2) @ counts
    clipped_high = (np.maximum(centres - highs[:, None], 0) ** 2) @ counts
    width = np.maximum(highs, 0)[None, :] - np.minimum(lows, 0)[:, None]
    # Rounding to multiples of a step has a mean squared error of step² / 12.
    error = clipped_low[:, None] + clipped_high[None, :] + counts.sum() * (width / _STEPS) ** 2 / 12
    row, column = np.unravel_index(int(error.argmin()), error.shape)
    return float(lows[row]), float(highs[column])
