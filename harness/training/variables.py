"""What training changes: weights, biases and the ends of ranges.

Each number is its value at the start plus a change in units of its own: the size of such weights, or the
length of the range. So one learning rate suits all of them, also where channels differ a thousandfold in
size. A change of zero leaves the number's bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from harness.exporting.calibration import Calibration
from harness.exporting.network import Network
from harness.exporting.precision_plan import LayerFormat, TensorFormat
from harness.exporting.weights_file import Floats

Tensor = Any  # of TensorFlow, which has no types
RangeKey = tuple[int, bool]  # the tensor, and whether its channels have ranges of their own

_LEAST_SHARE = 1e-3  # of a layer's usual size of weights: what is next to nothing can still grow
_ROUNDS = 8
# In comparison with weights: a bias moves all places of a channel alike, a range all values of a tensor.
_BIAS_SHARE, _RANGE_SHARE = 0.1, 0.3


@dataclass(frozen=True, kw_only=True)
class Varied:
    """A number that is trained."""

    start: Tensor
    unit: Tensor
    change: Any  # a tf.Variable

    @property
    def value(self) -> Tensor:
        return self.start + self.unit * self.change


@dataclass(frozen=True, kw_only=True)
class Variables:
    """All of a network's, as `emulation.Parameters`."""

    weights: dict[int, Varied] = field(default_factory=dict)
    biases: dict[int, Varied] = field(default_factory=dict)
    ranges: dict[RangeKey, tuple[Varied, Varied]] = field(default_factory=dict)

    def filters(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.weights[layer].value, self.biases[layer].value

    def range_of(self, tensor: int, *, by_channel: bool) -> tuple[Tensor, Tensor]:
        low, high = self.ranges[tensor, by_channel]
        return low.value, high.value

    @property
    def all(self) -> list[Any]:
        """The tf.Variables."""
        ends = [end for pair in self.ranges.values() for end in pair]
        return [each.change for each in (*self.weights.values(), *self.biases.values(), *ends)]

    def changes(self) -> list[Floats]:
        """The values of `all`."""
        return [each.numpy() for each in self.all]

    def set_changes(self, values: Sequence[Floats]) -> None:
        """To what `changes` gave."""
        for each, value in zip(self.all, values, strict=True):
            each.assign(value)


def variables_of(network: Network, formats: Sequence[LayerFormat], calibration: Calibration) -> Variables:
    """At the start: the numbers of the files. `calibration` has all ranges that the formats need."""
    found = Variables()
    for layer in network.needed():
        if not layer.weighted:
            continue
        weights, bias = layer.filters
        unit = unit_of(weights, layer.groups)
        found.weights[layer.index] = _varied(weights, unit)
        size = np.abs(weights * (unit > 0)).reshape(len(bias), -1).max(axis=1)
        found.biases[layer.index] = _varied(bias, _BIAS_SHARE * np.maximum(np.abs(bias), size))
    for form in formats:
        for written in (form.output, form.converted):
            if written is not None and written.recorded is not None:
                _add_range(found, written, calibration)
    return found


def _add_range(found: Variables, written: TensorFormat, calibration: Calibration) -> None:
    assert written.recorded is not None
    known = calibration.tensors[written.recorded]
    if written.channels is not None:
        low, high = written.channels.low, written.channels.high
    else:
        low, high = np.asarray(known.low, np.float32), np.asarray(known.high, np.float32)
    unit = _RANGE_SHARE * (np.maximum(high, 0) - np.minimum(low, 0))
    key = written.recorded, written.channels is not None
    if key not in found.ranges:
        found.ranges[key] = (_varied(low, unit), _varied(high, unit))


def unit_of(weights: Floats, groups: int) -> Floats:
    """The usual size of weights by their output and input channel, in the shape of weights.

    It is the product of a size for each output channel and one for each input channel, fitted to the mean
    squares. `weights` are [output channels, input channels / groups, rows, columns].
    """
    outputs, inputs = weights.shape[:2]
    squares = (
        np.square(weights.astype(np.float64)).mean(axis=(2, 3)).reshape(groups, outputs // groups, inputs)
    )
    tiny = max(float(squares.mean()), 1e-60)
    squares = np.maximum(squares, tiny * 1e-24)
    across, down = np.ones((groups, 1, inputs)), np.ones((groups, outputs // groups, 1))
    for _ in range(_ROUNDS):
        down = (squares / across).mean(axis=2, keepdims=True)
        across = (squares / down).mean(axis=1, keepdims=True)
    sizes = np.sqrt(down * across).reshape(outputs, inputs, 1, 1)
    least = _LEAST_SHARE * np.median(sizes, axis=1, keepdims=True)
    return np.broadcast_to(np.maximum(sizes, least), weights.shape).astype(np.float32)


def _varied(start: Any, unit: Any) -> Varied:
    start = tf.constant(start, tf.float32)
    return Varied(start=start, unit=tf.constant(unit, tf.float32), change=tf.Variable(tf.zeros_like(start)))


def values_of(variables: Variables) -> Mapping[str, Floats]:
    """The trained numbers by name, for a .npz file."""
    found: dict[str, Floats] = {}
    for name, each in (("weights", variables.weights), ("bias", variables.biases)):
        found |= {f"{name} {layer}": varied.value.numpy() for layer, varied in each.items()}
    for (tensor, by_channel), ends in variables.ranges.items():
        kind = "channels" if by_channel else "tensor"
        found |= {
            f"{end} {kind} {tensor}": varied.value.numpy()
            for end, varied in zip(("low", "high"), ends, strict=True)
        }
    return found
