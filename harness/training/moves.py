"""Layers that move values, and leave them and their int8 steps as they are.

The sizes of a cfg are channels, rows, columns; the maps here have their channels last. Only the program of
training imports this module: it needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from harness.exporting.layer import NetworkLayer
from harness.training.resizing import taps_of

Tensor = Any  # of TensorFlow, which has no types

AXES = {"channels": 3, "height": 1, "width": 2}  # of a map with its channels last


def axis_of(layer: NetworkLayer) -> int:
    """The axis that the layer's section names."""
    return AXES[layer.section.word("axis") or "channels"]


def _largest(layer: NetworkLayer, values: Tensor) -> Tensor:
    rows, columns = layer.window
    pads = [(0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0)]
    padded = tf.pad(values, pads, constant_values=tf.float32.min)
    return tf.nn.max_pool2d(padded, [rows.taps, columns.taps], [rows.stride, columns.stride], "VALID")


def _repeated(layer: NetworkLayer, values: Tensor) -> Tensor:
    stride = layer.section.integer("stride", 2)
    return tf.repeat(tf.repeat(values, stride, axis=1), stride, axis=2)


def _reshaped(layer: NetworkLayer, values: Tensor) -> Tensor:
    return _channels_last(tf.reshape(_channels_first(values), (-1, *layer.out)))


def _transposed(layer: NetworkLayer, values: Tensor) -> Tensor:
    dims = layer.section.integers("dims") or layer.input_shapes[0]
    axes = [0, *(axis + 1 for axis in layer.section.integers("axes"))]
    turned = tf.transpose(tf.reshape(_channels_first(values), (-1, *dims)), axes)
    return _channels_last(tf.reshape(turned, (-1, *layer.out)))


def _sliced(layer: NetworkLayer, values: Tensor) -> Tensor:
    section, axis = layer.section, axis_of(layer)
    size = values.shape[axis]
    step = section.integer("step", 1)
    begin = section.integer("begin", 0 if step > 0 else size - 1)
    end = section.integer("end", size if step > 0 else -1)
    places: list[slice] = [slice(None)] * 4
    places[axis] = slice(begin, None if end < 0 else end, step)
    return values[tuple(places)]


def _nearest(layer: NetworkLayer, values: Tensor) -> Tensor:
    rows, columns = ([tap.lower for tap in axis] for axis in taps_of(layer))
    return tf.gather(tf.gather(values, rows, axis=1), columns, axis=2)


def _channels_first(values: Tensor) -> Tensor:
    return tf.transpose(values, (0, 3, 1, 2))


def _channels_last(values: Tensor) -> Tensor:
    return tf.transpose(values, (0, 2, 3, 1))


MOVED: Mapping[str, Callable[[NetworkLayer, Tensor], Tensor]] = {
    "maxpool": _largest,
    "pool": _largest,
    "reshape": _reshaped,
    "resize": _nearest,
    "slice": _sliced,
    "transpose": _transposed,
    "upsample": _repeated,
}
