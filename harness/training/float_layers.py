"""Layers that compute in float, value by value or over a map, and the activations.

The maps have their channels last. Only the program of training imports this module: it needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf

from harness.exporting.layer import NetworkLayer
from harness.training.moves import axis_of
from harness.training.resizing import Tap, taps_of

Tensor = Any  # of TensorFlow, which has no types


def activated(activation: str, x: Tensor) -> Tensor:
    """In float."""
    return _ACTIVATIONS[activation](x)


_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x,
    "leaky": lambda x: tf.maximum(x * 0.1, x),
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "logistic": tf.sigmoid,
    "tanh": tf.tanh,
    "mish": lambda x: x * tf.tanh(tf.math.softplus(x)),
    "swish": lambda x: x * tf.sigmoid(x),
    "hard_mish": lambda x: tf.nn.relu(x) + (tf.square(tf.clip_by_value(x, -2.0, 0.0) + 1.0) - 1.0) / 2.0,
    "hard_swish": lambda x: x * tf.clip_by_value(x / 6.0 + 0.5, 0.0, 1.0),
    "hard_sigmoid": lambda x: tf.clip_by_value(x / 6.0 + 0.5, 0.0, 1.0),
    "elu": tf.nn.elu,
}


def _pairwise(
    operation: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[NetworkLayer, list[Tensor]], Tensor]:
    return lambda layer, inputs: activated(layer.activation, reduce(operation, inputs))


def _mean(_: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    wide = tf.cast(inputs[0], tf.float64)
    return tf.cast(tf.reduce_mean(wide, axis=(1, 2), keepdims=True), tf.float32)


def _windows_mean(layer: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    """Sums in float, tap by tap."""
    rows, columns = layer.window
    pads = [(0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0)]
    _, height, width = layer.out

    def summed(values: Tensor) -> Tensor:
        padded = tf.pad(values, pads)
        return reduce(
            tf.add,
            (
                padded[:, row : row + height * rows.stride : rows.stride, column:][
                    :, :height, : width * columns.stride : columns.stride
                ]
                for row in range(rows.taps)
                for column in range(columns.taps)
            ),
        )

    if layer.section.integer("count_padding", 0):
        return summed(inputs[0]) / float(rows.taps * columns.taps)
    inside = summed(tf.ones((1, *layer.input_shapes[0][1:], 1)))
    return summed(inputs[0]) / tf.maximum(inside, 1.0)


def _scaled(layer: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    return activated(layer.activation, inputs[1] * inputs[0])


def _interpolated(layer: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    rows, columns = taps_of(layer)
    return _between(_between(inputs[0], columns, axis=2), rows, axis=1)


def _between(values: Tensor, taps: list[Tap], *, axis: int) -> Tensor:
    lower = tf.gather(values, [tap.lower for tap in taps], axis=axis)
    upper = tf.gather(values, [tap.upper for tap in taps], axis=axis)
    shape = [-1 if place == axis else 1 for place in range(4)]
    return lower + np.array([tap.weight for tap in taps], np.float32).reshape(shape) * (upper - lower)


def _softmax(layer: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    return tf.nn.softmax(inputs[0], axis=axis_of(layer))


def _activation(layer: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    return activated(layer.activation, inputs[0])


def _constant(layer: NetworkLayer, inputs: list[Tensor]) -> Tensor:
    """For each of the network's pictures."""
    assert layer.weights is not None
    numbers = tf.constant(layer.weights.transpose(1, 2, 0)[None], tf.float32)
    return tf.repeat(numbers, tf.shape(inputs[0])[0], axis=0)


# They store their results as their inputs and ranges allow.
COMPUTED: Mapping[str, Callable[[NetworkLayer, list[Tensor]], Tensor]] = {
    "activation": _activation,
    "add": _pairwise(tf.add),
    "avgpool": _mean,
    "constant": _constant,
    "div": _pairwise(tf.divide),
    "maximum": _pairwise(tf.maximum),
    "minimum": _pairwise(tf.minimum),
    "mul": _pairwise(tf.multiply),
    "pool": _windows_mean,
    "resize": _interpolated,
    "scale_channels": _scaled,
    "shortcut": _pairwise(tf.add),
    "softmax": _softmax,
    "sub": _pairwise(tf.subtract),
}
