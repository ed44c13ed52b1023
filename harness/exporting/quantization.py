"""Scales, zero points, weights and biases of int8, as the engine computes them (engine/src/quant/)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.exporting.weights_file import Floats

Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]

LEAST, MOST = -128, 127

_LARGEST = float(np.float32(1e30))
_SMALLEST = 1e-30
_LEAST_FACTOR = 1e-9  # of a channel; its inverse, and products with it, stay normal numbers
_BIAS_LIMIT = 2**30


@dataclass(frozen=True, kw_only=True)
class ChannelRanges:
    """The least and largest values of a tensor's channels."""

    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True)
class Grid:
    """real = scale * (stored - zero_point), stored from -128 to 127."""

    scale: float  # a float32
    zero_point: int | Int32s  # of the tensor, or of each channel


def grid_of_range(low: float, high: float) -> Grid:
    """The grid that covers a range, widened to include zero."""
    low, high = _ends(low, high)
    if high == low:
        return Grid(scale=1.0, zero_point=0)
    scale = float(np.float32(max((high - low) / 255, _SMALLEST)))
    return Grid(scale=scale, zero_point=int(np.clip(np.rint(-128 - low / scale), LEAST, MOST)))


def int16_scale_of_range(low: float, high: float) -> float:
    """The symmetric step of int16 that covers a range."""
    low, high = _ends(low, high)
    scale = max(low / -32768, high / 32767)
    return float(np.float32(max(scale, _SMALLEST))) if scale else 1.0


def weight_scales(weights: Floats, bias: Floats, published: Floats | None = None) -> Floats:
    """The steps of the output channels' weights, or published ones; large enough for int32 biases."""
    largest = np.minimum(np.abs(weights.reshape(len(weights), -1)).max(axis=1), np.float32(1e30))
    steps = published if published is not None else largest / np.float32(127)
    scales = np.maximum(steps, np.minimum(np.abs(bias), np.float32(1e30)) * np.float32(2**-16))
    return scales if published is not None else np.where(scales > 1e-30, scales, np.float32(1))


def quantised_weights(weights: Floats, scales: Floats) -> Int8s:
    """Weights [output channels, ...] in steps of their channel, from -127 to 127."""
    steps = weights.astype(np.float64) / scales.astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
    return np.rint(np.clip(steps, -127, 127)).astype(np.int8)


def quantised_bias(bias: Floats, steps: npt.NDArray[np.float64]) -> Int32s:
    """Biases in steps of the sums: the product of the scales of input and weights."""
    return np.rint(np.clip(bias / steps, -_BIAS_LIMIT, _BIAS_LIMIT)).astype(np.int32)


def grid_of_channels(ranges: ChannelRanges) -> tuple[Grid, Floats]:
    """One grid for channels of different ranges, and a factor [channels] for each.

    A channel divided by its factor lies on the grid as it would on one of its own. The channels have one zero
    point where their ranges differ in size alone, as behind ReLU. Runtimes compute in integers with one scale
    and zero point for a tensor of activations: the factors go into the weights before and behind it.
    """
    grids = [grid_of_range(*ends) for ends in zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)]
    scales = np.array([grid.scale for grid in grids], np.float32)
    zeros = np.array([grid.zero_point for grid in grids], np.int32)
    used = np.maximum(ranges.high, 0) > np.minimum(ranges.low, 0)
    if not used.any():
        return Grid(scale=1.0, zero_point=0), np.ones(len(grids), np.float32)
    largest = scales[used].max()
    factors = np.where(used, np.maximum(scales / largest, np.float32(_LEAST_FACTOR)), np.float32(1))
    different = np.unique(zeros[used]).size > 1
    return Grid(scale=float(largest), zero_point=zeros if different else int(zeros[used][0])), factors


def _ends(low: float, high: float) -> tuple[float, float]:
    return max(min(low, 0.0), -_LARGEST), min(max(high, 0.0), _LARGEST)
