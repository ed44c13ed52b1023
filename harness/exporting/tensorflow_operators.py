"""The operators of the ONNX export, in fp32, as TensorFlow's. Only tensorflow_program.py imports this module.

Tensors of four axes are kept with their channels last, others as ONNX has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # as permutations
_LOWEST = float(np.finfo(np.float32).min)
_NEVER_NEGATIVE = ("Relu", "Relu6", "Sigmoid")  # TensorFlow's


class RefusedError(Exception):
    """An operator that TensorFlow cannot express."""

    def __init__(self, node: Any, message: str) -> None:
        super().__init__(message)
        self.reason = {"node": node.name, "message": message}


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A node of the graph, and the values of all tensors before it."""

    node: Any
    tensors: Mapping[str, Any]
    constants: Mapping[str, Any]

    @property
    def x(self) -> Any:
        return self.value(0)

    def value(self, place: int) -> Any:
        """An input; a constant is brought to four axes."""
        name = self.node.input[place]
        if name in self.tensors:
            return self.tensors[name]
        constant = self.constants[name]
        if constant.ndim:
            constant = constant.reshape([1] * (4 - constant.ndim) + list(constant.shape))
            constant = constant.transpose(_TO_LAST)
        return tf.constant(constant)

    def constant(self, place: int) -> Any:
        """A constant input in ONNX's order of axes; None if it is left out."""
        return self.constants.get(self.node.input[place]) if place < len(self.node.input) else None

    def values(self) -> list[Any]:
        return [self.value(place) for place in range(len(self.node.input))]

    def attribute(self, name: str, default: Any = None) -> Any:
        for each in self.node.attribute:
            if each.name == name:
                value = onnx.helper.get_attribute_value(each)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def axis(self, axis: int) -> int:
        """An axis of ONNX's first input, in TensorFlow."""
        return _TO_LAST.index(axis) if self.x.shape.rank == 4 else axis


def channels_first(x: Any) -> Any:
    return _moved(x, _TO_FIRST)


def channels_last(x: Any) -> Any:
    return _moved(x, _TO_LAST)


def _moved(x: Any, order: Sequence[int]) -> Any:
    """Four axes in another order. Memory is not moved where one place or one channel is all there is."""
    if x.shape.rank != 4:
        return x
    shape = [x.shape[axis] for axis in order]
    large = [axis for axis in order if x.shape[axis] > 1]
    return tf.reshape(x, shape) if large == sorted(large) else tf.transpose(x, order)


# Windows


def _conv(o: Operator) -> Any:
    weights, bias, groups = o.constant(1), o.constant(2), o.attribute("group", 1)
    size = weights.shape[2:]
    strides, dilations = o.attribute("strides", [1, 1]), o.attribute("dilations", [1, 1])
    x, padding = _padded(o.x, o.attribute("pads", [0] * 4), size, strides, dilations, tf.pad)
    if groups > 1 and groups == x.shape[3]:
        filters = weights.reshape(groups, -1, *size).transpose(2, 3, 0, 1)
        made = tf.nn.depthwise_conv2d(x, filters, [1, *strides, 1], padding, dilations=dilations)
    else:
        made = tf.nn.conv2d(x, weights.transpose(2, 3, 1, 0), strides, padding, dilations=dilations)
    return tf.nn.bias_add(made, bias)


def _padded(
    x: Any,
    pads: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pad: Any,
) -> tuple[Any, str]:
    """The map for a window, and TensorFlow's word for the padding that is left to the operator."""
    rows, same = [], []
    for axis in range(2):
        there, extent, stride = x.shape[1 + axis], (size[axis] - 1) * dilations[axis] + 1, strides[axis]
        before, after = pads[axis], pads[2 + axis]
        # Darknet also pads behind the last window, where a stride is above one.
        last = (there + before + after - extent) // stride * stride
        rows.append((before, min(after, max(last + extent - there - before, 0))))
        total = max((-(-there // stride) - 1) * stride + extent - there, 0)
        same.append((total // 2, total - total // 2))
    if not any(map(any, rows)):
        return x, "VALID"
    if rows == same:
        return x, "SAME"
    return pad(x, [(0, 0), *rows, (0, 0)]), "VALID"


def _deconv(o: Operator) -> Any:
    weights, bias = o.constant(1), o.constant(2)
    strides, pads = o.attribute("strides"), o.attribute("pads")
    if o.attribute("group", 1) > 1 or max(o.attribute("dilations", [1])) > 1:
        raise RefusedError(
            o.node, "has groups or dilation, which TensorFlow's transposed convolution has not"
        )
    added = o.attribute("output_padding")
    sizes, ends = [], []
    for axis in range(2):
        whole = (o.x.shape[1 + axis] - 1) * strides[axis] + weights.shape[2 + axis]
        end = whole - pads[2 + axis] + added[axis]
        sizes.append(max(whole, end))
        ends.append(end)
    made = tf.nn.conv2d_transpose(
        o.x, weights.transpose(2, 3, 1, 0), [1, *sizes, weights.shape[1]], strides, "VALID"
    )
    return tf.nn.bias_add(made[:, pads[0] : ends[0], pads[1] : ends[1]], bias)


def _max_pool(o: Operator) -> Any:
    def pad(x: Any, pads: Sequence[Sequence[int]]) -> Any:
        # Padding with zeros is PAD, other padding PADV2, which fewer runtimes have.
        return tf.pad(x, pads, constant_values=0.0 if x.op.type in _NEVER_NEGATIVE else _LOWEST)

    size, strides = o.attribute("kernel_shape"), o.attribute("strides")
    dilations = o.attribute("dilations", [1, 1])
    x, padding = _padded(o.x, o.attribute("pads"), size, strides, dilations, pad)
    return (
        tf.nn.pool(x, size, "MAX", strides, padding, dilations=dilations)
        if max(dilations) > 1
        else (tf.nn.max_pool2d(x, size, strides, padding))
    )


def _average_pool(o: Operator) -> Any:
    size, strides, pads = (o.attribute(name) for name in ("kernel_shape", "strides", "pads"))
    rows = [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]
    if not any(pads):
        return tf.nn.avg_pool2d(o.x, size, strides, "VALID")
    found = tf.nn.avg_pool2d(tf.pad(o.x, rows), size, strides, "VALID")
    if o.attribute("count_include_pad", 0):
        return found
    ones = tf.pad(tf.ones([1, *o.x.shape[1:3], 1]), rows)
    return found / tf.nn.avg_pool2d(ones, size, strides, "VALID")


# Shapes


def _concat(o: Operator) -> Any:
    return tf.concat(o.values(), o.axis(o.attribute("axis")))


def _slice(o: Operator) -> Any:
    rank = o.x.shape.rank
    begins, ends, axes = (o.constant(place) for place in (1, 2, 3))
    steps = o.constant(4) if o.constant(4) is not None else [1] * len(begins)
    chosen = [slice(None)] * rank
    for begin, end, axis, step in zip(begins, ends, axes, steps, strict=True):
        size = o.x.shape[o.axis(int(axis))]
        stop = int(end) if end >= -size else None  # below the first: up to it
        chosen[o.axis(int(axis))] = slice(int(begin), stop, int(step))
    return o.x[tuple(chosen)]


def _pad(o: Operator) -> Any:
    rank, pads = o.x.shape.rank, o.constant(1)
    rows = [(int(pads[axis]), int(pads[axis + rank])) for axis in range(rank)]
    if rank == 4:
        rows = [rows[axis] for axis in _TO_LAST]
    cut = tuple(slice(max(-before, 0), min(after, 0) or None) for before, after in rows)
    rows = [(max(before, 0), max(after, 0)) for before, after in rows]
    x = o.x[cut] if any(each != slice(0, None) for each in cut) else o.x
    mode = o.attribute("mode", "constant")
    if mode == "constant":
        value = o.constant(2)
        return tf.pad(x, rows, constant_values=0.0 if value is None else float(value))
    if mode == "edge" and max(map(max, rows)) > 1:
        raise RefusedError(o.node, "repeats the edge more than once, which TensorFlow's padding does not")
    return tf.pad(x, rows, "REFLECT" if mode == "reflect" else "SYMMETRIC")


def _reshape(o: Operator) -> Any:
    return channels_last(tf.reshape(channels_first(o.x), [int(size) for size in o.constant(1)]))


def _transpose(o: Operator) -> Any:
    order = o.attribute("perm")
    if o.x.shape.rank == 4:
        order = [_TO_LAST.index(order[axis]) for axis in _TO_LAST]
    return tf.transpose(o.x, order)


def _resize(o: Operator) -> Any:
    x = o.x
    if o.constant(3) is not None:
        out = [int(size) for size in o.constant(3)[2:]]
        scales = [wanted / size for wanted, size in zip(out, x.shape[1:3], strict=True)]
    else:
        scales = [float(scale) for scale in o.constant(2)[2:]]
        out = [int(scale * size) for scale, size in zip(scales, x.shape[1:3], strict=True)]
    way = o.attribute("coordinate_transformation_mode", "half_pixel")
    if way == "pytorch_half_pixel" and min(out) > 1:
        way = "half_pixel"
    if o.attribute("mode", "nearest") == "linear":
        exact = [wanted / size for wanted, size in zip(out, x.shape[1:3], strict=True)]
        if way not in ("half_pixel", "asymmetric", "align_corners") or scales != exact:
            raise RefusedError(o.node, f"has the coordinates {way} or a scale that TensorFlow has not")
        return tf.raw_ops.ResizeBilinear(
            images=x, size=out, align_corners=way == "align_corners", half_pixel_centers=way == "half_pixel"
        )
    places = [
        _nearest(size, wanted, scale, way, o.attribute("nearest_mode", "round_prefer_floor"))
        for size, wanted, scale in zip(x.shape[1:3], out, scales, strict=True)
    ]
    plain = [np.arange(wanted) * size // wanted for size, wanted in zip(x.shape[1:3], out, strict=True)]
    if all(map(np.array_equal, places, plain)):
        return tf.raw_ops.ResizeNearestNeighbor(images=x, size=out)
    return tf.gather(tf.gather(x, places[0], axis=1), places[1], axis=2)


def _nearest(size: int, wanted: int, scale: float, way: str, rounding: str) -> Any:
    """The place of the input that each place of the output takes, as ONNX says."""
    place = np.arange(wanted, dtype=np.float64)
    match way:
        case "asymmetric":
            place = place / scale
        case "align_corners":
            place = place * (size - 1) / max(wanted - 1, 1)
        case _:
            place = (place + 0.5) / scale - 0.5
    rounded = {
        "floor": np.floor(place),
        "ceil": np.ceil(place),
        "round_prefer_floor": np.ceil(place - 0.5),
        "round_prefer_ceil": np.floor(place + 0.5),
    }[rounding]
    return np.clip(rounded, 0, size - 1).astype(np.int32)


# Arithmetic


def _reduced(function: Callable[..., Any]) -> Callable[[Operator], Any]:
    def reduce(o: Operator) -> Any:
        axes = o.constant(1) if o.constant(1) is not None else o.attribute("axes")
        return function(o.x, [o.axis(int(axis)) for axis in axes], keepdims=True)

    return reduce


def _l2(x: Any, axes: Sequence[int], *, keepdims: bool) -> Any:
    return tf.sqrt(tf.reduce_sum(x * x, axes, keepdims=keepdims))


def _clip(o: Operator) -> Any:
    low, high = float(o.constant(1)), float(o.constant(2))
    return tf.nn.relu6(o.x) if (low, high) == (0, 6) else tf.clip_by_value(o.x, low, high)


def _hard_sigmoid(o: Operator) -> Any:
    return tf.clip_by_value(o.x * o.attribute("alpha", 0.2) + o.attribute("beta", 0.5), 0.0, 1.0)


def _softplus(o: Operator) -> Any:
    """Of operators that TensorFlow Lite has, and that do not overflow."""
    return tf.nn.relu(o.x) + tf.math.log(1.0 + tf.exp(-tf.abs(o.x)))


def _elu(o: Operator) -> Any:
    alpha = o.attribute("alpha", 1.0)
    return tf.nn.elu(o.x) if alpha == 1 else tf.nn.relu(o.x) + alpha * (tf.exp(-tf.nn.relu(-o.x)) - 1.0)


def _prelu(o: Operator) -> Any:
    return tf.nn.relu(o.x) - tf.nn.relu(-o.x) * o.value(1)


def _matmul(o: Operator) -> Any:
    return channels_last(tf.linalg.matmul(*map(channels_first, o.values())))


def _function(function: Callable[..., Any]) -> Callable[[Operator], Any]:
    return lambda o: function(*o.values())


OPERATORS: Mapping[str, Callable[[Operator], Any]] = {
    "Abs": _function(tf.abs),
    "Add": _function(tf.add),
    "AveragePool": _average_pool,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _deconv,
    "Div": _function(tf.divide),
    "Elu": _elu,
    "Erf": _function(tf.math.erf),
    "Exp": _function(tf.exp),
    "GlobalAveragePool": lambda o: tf.reduce_mean(o.x, (1, 2), keepdims=True),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda o: o.x * tf.nn.relu6(o.x + 3.0) * (1 / 6),
    "Identity": _function(tf.identity),
    "LeakyRelu": lambda o: tf.nn.leaky_relu(o.x, o.attribute("alpha", 0.01)),
    "MatMul": _matmul,
    "Max": _function(tf.maximum),
    "MaxPool": _max_pool,
    "Min": _function(tf.minimum),
    "Mul": _function(tf.multiply),
    "Neg": _function(tf.negative),
    "PRelu": _prelu,
    "Pad": _pad,
    "ReduceL2": _reduced(_l2),
    "ReduceMax": _reduced(tf.reduce_max),
    "ReduceMean": _reduced(tf.reduce_mean),
    "ReduceMin": _reduced(tf.reduce_min),
    "ReduceSum": _reduced(tf.reduce_sum),
    "Relu": _function(tf.nn.relu),
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": _function(tf.sigmoid),
    "Slice": _slice,
    "Softmax": lambda o: tf.nn.softmax(o.x, o.axis(o.attribute("axis"))),
    "Softplus": _softplus,
    "Sqrt": _function(tf.sqrt),
    "Sub": _function(tf.subtract),
    "Tanh": _function(tf.tanh),
    "Transpose": _transpose,
}
