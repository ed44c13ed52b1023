"""Samples of what a convolution reads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import Layer
from harness.config.layer_shapes import WindowAxis, window_axes
from harness.exporting.weights_file import Floats
from harness.repair.parameters import Parameters

Places = npt.NDArray[np.intp]

_SEED = 0


def sampled_windows(parameters: Parameters, layer: Layer, tensor: Floats, places: int) -> Floats:
    """[groups, pictures * places, values] the windows of a convolution at some places of its output.

    `tensor` is its input, [pictures, channels, height, width]. The places are the same for every call; their
    number is at most that of the output. A group's values are in the order of its weights.
    """
    rows, columns = window_axes(parameters.section(layer))
    _, height, width = layer.out
    count = min(places, height * width)
    chosen = np.random.default_rng(_SEED).choice(height * width, count, replace=False)
    padded = np.pad(tensor, ((0, 0), (0, 0), (rows.before, rows.after), (columns.before, columns.after)))
    down, across = _taps(rows, chosen // width), _taps(columns, chosen % width)
    taken = padded[:, :, down[:, :, None], across[:, None, :]]  # [pictures, channels, places, rows, columns]
    groups = parameters.groups(layer)
    pictures, channels = tensor.shape[:2]
    parts = taken.reshape(pictures, groups, channels // groups, count, -1)
    return np.ascontiguousarray(parts.transpose(1, 0, 3, 2, 4).reshape(groups, pictures * count, -1))


def _taps(axis: WindowAxis, places: Places) -> Places:
    """[places, taps] where the windows read."""
    taps: Places = places[:, None] * axis.stride + np.arange(axis.taps) * axis.dilation
    return taps
