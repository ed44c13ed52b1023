"""The operators of TensorFlow Lite, as neutral ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.importing.graph import Attribute
from harness.importing.tflite_images import IMAGE_OPERATORS
from harness.importing.tflite_operator import Operator

Translate = Callable[[Operator], Sequence[str]]


def _unary(op: str, **attributes: Attribute) -> Translate:
    return lambda o: [o.builder.emit(op, o.input(0), **attributes)]


def _binary(op: str) -> Translate:
    return lambda o: [o.activated(o.builder.emit(op, o.input(0), o.input(1)))]


def _reduction(op: str) -> Translate:
    def translate(o: Operator) -> list[str]:
        axes = o.integers(1, "the list of axes")
        return [o.builder.reduce(op, o.input(0), axes, keep=bool(o.option("KeepDims")))]

    return translate


def _leaky(o: Operator) -> list[str]:
    return [o.builder.emit("LeakyRelu", o.input(0), alpha=float(o.option("Alpha")))]


def _gelu(o: Operator) -> list[str]:
    return [o.builder.emit("GeluTanh" if o.option("Approximate") else "Gelu", o.input(0))]


def _prelu(o: Operator) -> list[str]:
    return [o.builder.emit("PRelu", o.input(0), o.input(1))]


def _square(o: Operator) -> list[str]:
    return [o.builder.emit("Mul", o.input(0), o.input(0))]


def _squared_difference(o: Operator) -> list[str]:
    difference = o.builder.emit("Sub", o.input(0), o.input(1))
    return [o.builder.emit("Mul", difference, difference)]


def _rsqrt(o: Operator) -> list[str]:
    return [o.builder.emit("Div", o.builder.scalar(1.0), o.builder.emit("Sqrt", o.input(0)))]


def _softmax(o: Operator) -> list[str]:
    found, beta = o.input(0), float(o.option("Beta", 1.0))
    if beta != 1.0:
        found = o.builder.emit("Mul", found, o.builder.scalar(beta))
    return [o.builder.emit("Softmax", found, axis=len(o.builder.shape(found)) - 1)]


def _log_softmax(o: Operator) -> list[str]:
    axis = len(o.builder.shape(o.input(0))) - 1
    return [o.builder.emit("Log", o.builder.emit("Softmax", o.input(0), axis=axis))]


def _l2_normalization(o: Operator) -> list[str]:
    axis = len(o.builder.shape(o.input(0))) - 1
    length = o.builder.emit("ReduceL2", o.input(0), axes=(axis,))
    length = o.builder.emit("Max", length, o.builder.scalar(1e-6))
    return [o.activated(o.builder.emit("Div", o.input(0), length))]


def _fully_connected(o: Operator) -> list[str]:
    if o.option("WeightsFormat"):
        raise o.builder.source.unsupported("its weights are shuffled")
    weights = o.input(1)
    shape = o.builder.shape(weights)
    if len(shape) != 2 or o.builder.graph.value(weights) is None:
        raise o.builder.source.unsupported("its weights are not a constant matrix")
    found = o.input(0)
    if not o.option("KeepNumDims") or o.builder.shape(found)[-1] != shape[1]:
        found = o.builder.reshape_with_free(found, (-1, shape[1]))
    bias = [o.input(2)] if o.has(2) else []
    return [o.activated(o.builder.emit("Linear", found, weights, *bias))]


def _batch_matmul(o: Operator) -> list[str]:
    first, second = o.input(0), o.input(1)
    for adjoint, number in (("AdjX", 0), ("AdjY", 1)):
        if o.option(adjoint):
            found = (first, second)[number]
            rank = len(o.builder.shape(found))
            turned = o.builder.transpose(found, (*range(rank - 2), rank - 1, rank - 2))
            first, second = (turned, second) if number == 0 else (first, turned)
    return [o.builder.emit("MatMul", first, second)]


def _reshape(o: Operator) -> list[str]:
    if o.has(1) and o.builder.graph.value(o.input(1)) is not None:
        wanted = o.integers(1, "the new shape")
    else:
        wanted = tuple(int(size) for size in o.option("NewShape", ()))
        if not wanted and o.has(1):
            wanted = o.integers(1, "the new shape")
    return [o.builder.reshape_with_free(o.input(0), wanted)]


def _squeeze(o: Operator) -> list[str]:
    shape = o.builder.shape(o.input(0))
    axes = {o.builder.axis(int(axis), len(shape)) for axis in o.option("SqueezeDims", ())}
    kept = [size for axis, size in enumerate(shape) if (axis not in axes if axes else size != 1)]
    return [o.builder.reshape(o.input(0), kept)]


def _expand_dims(o: Operator) -> list[str]:
    shape = list(o.builder.shape(o.input(0)))
    shape.insert(o.builder.axis(o.integers(1, "the axis")[0], len(shape) + 1), 1)
    return [o.builder.reshape(o.input(0), shape)]


def _transpose(o: Operator) -> list[str]:
    return [o.builder.transpose(o.input(0), o.integers(1, "the order of the axes"))]


def _concatenation(o: Operator) -> list[str]:
    axis = o.builder.axis(int(o.option("Axis")), len(o.builder.shape(o.inputs[0])))
    return [o.activated(o.builder.concat(o.inputs, axis))]


def _pack(o: Operator) -> list[str]:
    axis = o.builder.axis(int(o.option("Axis")), len(o.builder.shape(o.inputs[0])) + 1)
    shape = o.builder.shape(o.inputs[0])
    longer = (*shape[:axis], 1, *shape[axis:])
    return [o.builder.concat([o.builder.reshape(name, longer) for name in o.inputs], axis)]


def _unpack(o: Operator) -> list[str]:
    shape = o.builder.shape(o.input(0))
    axis = o.builder.axis(int(o.option("Axis")), len(shape))
    if shape[axis] != len(o.operator.outputs):
        raise o.builder.source.unsupported(f"{shape[axis]} parts for {len(o.operator.outputs)} outputs")
    pieces = o.builder.split(o.input(0), axis, (1,) * shape[axis])
    return [o.builder.reshape(piece, (*shape[:axis], *shape[axis + 1 :])) for piece in pieces]


def _split(o: Operator) -> list[str]:
    shape, number = o.builder.shape(o.input(1)), len(o.operator.outputs)
    axis = o.builder.axis(o.integers(0, "the axis")[0], len(shape))
    if shape[axis] % number:
        raise o.builder.source.unsupported(f"{shape[axis]} cannot be split into {number} equal parts")
    return o.builder.split(o.input(1), axis, (shape[axis] // number,) * number)


def _split_v(o: Operator) -> list[str]:
    shape = o.builder.shape(o.input(0))
    axis = o.builder.axis(o.integers(2, "the axis")[0], len(shape))
    sizes = list(o.integers(1, "the list of sizes"))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    return o.builder.split(o.input(0), axis, sizes)


def _slice(o: Operator) -> list[str]:
    found = o.input(0)
    begins, sizes = o.integers(1, "where it begins"), o.integers(2, "the list of sizes")
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        end = o.builder.shape(found)[axis] if size == -1 else begin + size
        found = o.builder.slice(found, axis, begin, end)
    return [found]


def _strided_slice(o: Operator) -> list[str]:
    if o.option("EllipsisMask") or o.option("NewAxisMask") or o.option("Offset"):
        raise o.builder.source.unsupported("slices with an ellipsis or new axes are not supported")
    found, shape = o.input(0), list(o.builder.shape(o.input(0)))
    begins, ends, steps = (o.integers(number, "a bound") for number in (1, 2, 3))
    removed: list[int] = []
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        bit = 1 << axis
        if o.option("ShrinkAxisMask") & bit:
            index = o.builder.axis(begin, shape[axis])
            found = o.builder.slice(found, axis, index, index + 1)
            removed.append(axis)
            continue
        chosen = slice(
            None if o.option("BeginMask") & bit else begin, None if o.option("EndMask") & bit else end, step
        )
        if step == 0:
            raise o.builder.source.unsupported("a slice with a step of 0")
        places = range(shape[axis])[chosen]
        if not places:
            raise o.builder.source.unsupported("a slice is empty")
        low, high = min(places[0], places[-1]), max(places[0], places[-1])
        found = o.builder.slice(found, axis, low, high + 1, step)
    if removed:
        kept = [size for axis, size in enumerate(o.builder.shape(found)) if axis not in removed]
        found = o.builder.reshape(found, kept)
    return [found]


def _gather(o: Operator) -> list[str]:
    axis = o.builder.axis(int(o.option("Axis")), len(o.builder.shape(o.input(0))))
    return [o.builder.gather(o.input(0), axis, o.builder.value(o.input(1), "the list of indices"))]


def _pad(o: Operator) -> list[str]:
    pairs = np.array(o.integers(1, "the padding")).reshape(-1, 2)
    value = 0.0
    if o.has(2):
        value = float(o.builder.value(o.input(2), "the padding's value").reshape(-1)[0])
    pads = (*pairs[:, 0].tolist(), *pairs[:, 1].tolist())
    return [o.builder.emit("Pad", o.input(0), pads=pads, mode="constant", value=value)]


def _mirror_pad(o: Operator) -> list[str]:
    if o.option("Mode"):
        raise o.builder.source.unsupported("symmetric padding is not supported")
    pairs = np.array(o.integers(1, "the padding")).reshape(-1, 2)
    pads = (*pairs[:, 0].tolist(), *pairs[:, 1].tolist())
    return [o.builder.emit("Pad", o.input(0), pads=pads, mode="reflect", value=0.0)]


def _tile(o: Operator) -> list[str]:
    return [o.builder.tile(o.input(0), o.integers(1, "the number of repeats"))]


def _broadcast_to(o: Operator) -> list[str]:
    return [o.builder.emit("Expand", o.input(0), shape=o.integers(1, "the new shape"))]


def _shape(o: Operator) -> list[str]:
    return [o.builder.graph.constant(np.array(o.builder.shape(o.input(0)), np.int64), name="shape")]


def _same(o: Operator) -> list[str]:
    """The grid of a tensor is no operation: its numbers are real ones. What changes the grid becomes one."""
    if o.builder.graph.value(o.input(0)) is not None:
        return [o.input(0)]
    return [o.builder.emit("Identity", o.input(0))]


OPERATORS: Mapping[str, Translate] = {
    **IMAGE_OPERATORS,
    "ABS": _unary("Abs"),
    "ADD": _binary("Add"),
    "BATCH_MATMUL": _batch_matmul,
    "BROADCAST_TO": _broadcast_to,
    "CAST": _same,
    "CONCATENATION": _concatenation,
    "DENSIFY": _same,
    "DEQUANTIZE": _same,
    "DIV": _binary("Div"),
    "ELU": _unary("Elu", alpha=1.0),
    "EXP": _unary("Exp"),
    "EXPAND_DIMS": _expand_dims,
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "GELU": _gelu,
    "HARD_SWISH": _unary("HardSwish"),
    "L2_NORMALIZATION": _l2_normalization,
    "LEAKY_RELU": _leaky,
    "LOG": _unary("Log"),
    "LOGISTIC": _unary("Sigmoid"),
    "LOG_SOFTMAX": _log_softmax,
    "MAXIMUM": _binary("Max"),
    "MEAN": _reduction("ReduceMean"),
    "MINIMUM": _binary("Min"),
    "MIRROR_PAD": _mirror_pad,
    "MUL": _binary("Mul"),
    "NEG": _unary("Neg"),
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "POW": _binary("Pow"),
    "PRELU": _prelu,
    "QUANTIZE": _same,
    "REDUCE_MAX": _reduction("ReduceMax"),
    "REDUCE_MIN": _reduction("ReduceMin"),
    "RELU": _unary("Relu"),
    "RELU6": _unary("Clip", min=0.0, max=6.0),
    "RELU_0_TO_1": _unary("Clip", min=0.0, max=1.0),
    "RELU_N1_TO_1": _unary("Clip", min=-1.0, max=1.0),
    "RESHAPE": _reshape,
    "RSQRT": _rsqrt,
    "SHAPE": _shape,
    "SLICE": _slice,
    "SOFTMAX": _softmax,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQRT": _unary("Sqrt"),
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _binary("Sub"),
    "SUM": _reduction("ReduceSum"),
    "TANH": _unary("Tanh"),
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
