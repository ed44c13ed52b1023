"""ONNX's operators, as neutral ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.importing.graph import Attribute
from harness.importing.onnx_images import IMAGE_OPERATORS
from harness.importing.onnx_operator import Operator
from harness.importing.onnx_quantised import QUANTISED_OPERATORS
from harness.importing.onnx_shapes import SHAPE_OPERATORS

Translate = Callable[[Operator], Sequence[str]]


def _unary(op: str) -> Translate:
    return lambda o: [o.builder.emit(op, o.input(0))]


def _with_alpha(op: str, default: float) -> Translate:
    return lambda o: [o.builder.emit(op, o.input(0), alpha=o.number("alpha", default))]


def _several(op: str) -> Translate:
    """An operator on two or more tensors."""

    def translate(o: Operator) -> list[str]:
        found, *others = o.inputs
        for other in others:
            found = o.builder.emit(op, found, other)
        return [found]

    return translate


def _reduction(op: str) -> Translate:
    def translate(o: Operator) -> list[str]:
        axes = o.integers_at(1, "axes")
        if not axes:
            if o.integer("noop_with_empty_axes"):
                return [o.input(0)]
            axes = tuple(range(o.rank()))
        return [o.builder.reduce(op, o.input(0), axes, keep=bool(o.integer("keepdims", 1)))]

    return translate


def _mean(o: Operator) -> list[str]:
    (total,) = _several("Add")(o)
    return [o.builder.emit("Mul", total, o.builder.scalar(1 / len(o.inputs)))]


def _clip(o: Operator) -> list[str]:
    limits: dict[str, float] = {}
    for number, name in ((1, "min"), (2, "max")):
        if o.has(number):
            limits[name] = float(o.builder.value(o.input(number), f"its {name}").reshape(-1)[0])
        elif o.has_attribute(name):
            limits[name] = o.number(name)
    return [o.builder.emit("Clip", o.input(0), **limits)]


def _hard_sigmoid(o: Operator) -> list[str]:
    alpha, beta = o.number("alpha", 0.2), o.number("beta", 0.5)
    return [o.builder.emit("HardSigmoid", o.input(0), alpha=alpha, beta=beta)]


def _gelu(o: Operator) -> list[str]:
    return [o.builder.emit("GeluTanh" if o.text("approximate") == "tanh" else "Gelu", o.input(0))]


def _reciprocal(o: Operator) -> list[str]:
    return [o.builder.emit("Div", o.builder.scalar(1.0), o.input(0))]


def _softsign(o: Operator) -> list[str]:
    below = o.builder.emit("Add", o.builder.emit("Abs", o.input(0)), o.builder.scalar(1.0))
    return [o.builder.emit("Div", o.input(0), below)]


def _softmax(o: Operator) -> list[str]:
    axis = o.axis(default=-1 if o.opset >= 13 else 1)
    shape = o.builder.shape(o.input(0))
    if o.opset >= 13 or all(size == 1 for size in shape[axis + 1 :]):
        return [o.builder.emit("Softmax", o.input(0), axis=axis)]
    # Before opset 13, over all axes from this one on.
    flat = o.builder.reshape_with_free(o.input(0), (*shape[:axis], -1))
    return [o.builder.reshape(o.builder.emit("Softmax", flat, axis=axis), shape)]


def _log_softmax(o: Operator) -> list[str]:
    return [o.builder.emit("Log", _softmax(o)[0])]


def _gemm(o: Operator) -> list[str]:
    first, second = o.input(0), o.input(1)
    if o.rank(0) != 2 or o.rank(1) != 2:
        raise o.unsupported("its inputs are no matrices")
    if o.integer("transA"):
        first = o.builder.transpose(first, (1, 0))
    scale = o.number("alpha", 1.0)
    if o.builder.graph.value(second) is None:
        second = second if not o.integer("transB") else o.builder.transpose(second, (1, 0))
        found = o.builder.emit("MatMul", first, second)
    else:
        turned = second if o.integer("transB") else o.builder.transpose(second, (1, 0))
        found = o.builder.emit("Linear", first, turned)
    if scale != 1.0:
        found = o.builder.emit("Mul", found, o.builder.scalar(scale))
    if o.has(2):
        more = o.input(2)
        if o.number("beta", 1.0) != 1.0:
            more = o.builder.emit("Mul", more, o.builder.scalar(o.number("beta", 1.0)))
        found = o.builder.emit("Add", found, more)
    return [found]


def _matmul(o: Operator) -> list[str]:
    first, second = o.input(0), o.input(1)
    if o.rank(0) == 1:
        first = o.builder.reshape(first, (1, *o.builder.shape(first)))
    if o.rank(1) == 1:
        second = o.builder.reshape(second, (*o.builder.shape(second), 1))
    found = o.builder.emit("MatMul", first, second)
    shape = list(o.builder.shape(found))
    if o.rank(1) == 1:
        shape.pop(-1)
    if o.rank(0) == 1:
        shape.pop(-2 if o.rank(1) != 1 else -1)
    return [o.builder.reshape(found, shape)]


def _batch_norm(o: Operator) -> list[str]:
    scale, bias, mean, variance = (
        o.builder.value(o.input(number), "a parameter").astype(np.float64) for number in (1, 2, 3, 4)
    )
    by = scale / np.sqrt(variance + o.number("epsilon", 1e-5))
    return [o.builder.scale_and_bias(o.input(0), by, bias - mean * by)]


def _instance_norm(o: Operator) -> list[str]:
    scale, bias = (o.builder.value(o.input(number), "a parameter") for number in (1, 2))
    axes = tuple(range(2, o.rank()))
    found = o.builder.layer_norm(o.input(0), axes, o.number("epsilon", 1e-5))
    return [o.builder.scale_and_bias(found, scale, bias)]


def _layer_norm(o: Operator) -> list[str]:
    axes = tuple(range(o.axis(default=-1), o.rank()))
    found = o.builder.layer_norm(o.input(0), axes, o.number("epsilon", 1e-5))
    found = o.builder.emit("Mul", found, o.input(1))
    return [o.builder.emit("Add", found, o.input(2)) if o.has(2) else found]


def _group_norm(o: Operator) -> list[str]:
    scale, bias = (o.builder.value(o.input(number), "a parameter") for number in (1, 2))
    shape, groups = o.builder.shape(o.input(0)), o.integer("num_groups", 1)
    if shape[1] % groups:
        raise o.unsupported(f"{groups} groups of {shape[1]} channels")
    split = o.builder.reshape_with_free(o.input(0), (shape[0], groups, -1))
    found = o.builder.reshape(o.builder.layer_norm(split, (2,), o.number("epsilon", 1e-5)), shape)
    if scale.size not in (groups, shape[1]) or bias.size != scale.size:
        raise o.unsupported(f"{scale.size} scales and {bias.size} biases for {groups} groups")
    repeats = shape[1] // scale.size
    o.builder.graph.spend(2 * shape[1])
    return [o.builder.scale_and_bias(found, scale.repeat(repeats), bias.repeat(repeats))]


def _lp_norm(o: Operator) -> list[str]:
    if o.integer("p", 2) != 2:
        raise o.unsupported("only the norm of order 2 is supported")
    axis = o.axis(default=-1)
    return [o.builder.emit("Div", o.input(0), o.builder.emit("ReduceL2", o.input(0), axes=(axis,)))]


def _response_norm(o: Operator) -> list[str]:
    """LRN: x / (bias + alpha * mean of the squares of nearby channels) ** beta."""
    batch, channels, *image = o.builder.shape(o.input(0))
    size, beta = o.integer("size", 1), o.number("beta", 0.75)
    squares = o.builder.reshape_with_free(o.builder.emit("Mul", o.input(0), o.input(0)), (1, 1, channels, -1))
    before = (size - 1) // 2
    attributes: dict[str, Attribute] = {
        "kernel": (size, 1),
        "strides": (1, 1),
        "pads": (before, 0, size - 1 - before, 0),
    }
    mean = o.builder.pool("AveragePool", squares, attributes, ceil=False, count_padding=True)
    mean = o.builder.reshape(mean, (batch, channels, *image))
    scaled = o.builder.emit("Mul", mean, o.builder.scalar(o.number("alpha", 1e-4)))
    below = o.builder.emit("Add", scaled, o.builder.scalar(o.number("bias", 1.0)))
    root = o.builder.emit("Sqrt", below)
    if beta == 0.75:
        below = o.builder.emit("Mul", root, o.builder.emit("Sqrt", root))
    elif beta == 0.5:
        below = root
    elif beta != 1.0:
        raise o.unsupported(f"its power {beta:g} is not 0.5, 0.75 or 1")
    return [o.builder.emit("Div", o.input(0), below)]


def _square_sum(o: Operator) -> list[str]:
    axes = o.integers_at(1, "axes") or tuple(range(o.rank()))
    squared = o.builder.emit("Mul", o.input(0), o.input(0))
    return [o.builder.reduce("ReduceSum", squared, axes, keep=bool(o.integer("keepdims", 1)))]


def _cast(o: Operator) -> list[str]:
    """Numbers are real ones: only a change to integers would round them."""
    whole = (2, 3, 4, 5, 6, 7, 9, 12, 13)
    if o.integer("to", 1) in whole and o.builder.graph.value(o.input(0)) is None:
        raise o.unsupported("the network rounds to integers")
    return [o.builder.emit("Identity", o.input(0))]


def _same(o: Operator) -> list[str]:
    return [o.builder.emit("Identity", o.input(0))]


OPERATORS: Mapping[str, Translate] = {
    **IMAGE_OPERATORS,
    **QUANTISED_OPERATORS,
    **SHAPE_OPERATORS,
    "Abs": _unary("Abs"),
    "Add": _several("Add"),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": _same,
    "Clip": _clip,
    "Div": _several("Div"),
    "Dropout": _same,
    "Elu": _with_alpha("Elu", 1.0),
    "Erf": _unary("Erf"),
    "Exp": _unary("Exp"),
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GroupNormalization": _group_norm,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary("HardSwish"),
    "Identity": _same,
    "InstanceNormalization": _instance_norm,
    "LRN": _response_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _with_alpha("LeakyRelu", 0.01),
    "Log": _unary("Log"),
    "LogSoftmax": _log_softmax,
    "LpNormalization": _lp_norm,
    "MatMul": _matmul,
    "Max": _several("Max"),
    "Mean": _mean,
    "Min": _several("Min"),
    "Mish": _unary("Mish"),
    "Mul": _several("Mul"),
    "Neg": _unary("Neg"),
    "PRelu": lambda o: [o.builder.emit("PRelu", o.input(0), o.input(1))],
    "Pow": _several("Pow"),
    "Reciprocal": _reciprocal,
    "ReduceL2": _reduction("ReduceL2"),
    "ReduceMax": _reduction("ReduceMax"),
    "ReduceMean": _reduction("ReduceMean"),
    "ReduceMin": _reduction("ReduceMin"),
    "ReduceSum": _reduction("ReduceSum"),
    "ReduceSumSquare": _square_sum,
    "Relu": _unary("Relu"),
    "Selu": _unary("Selu"),
    "Sigmoid": _unary("Sigmoid"),
    "Softmax": _softmax,
    "Softplus": _unary("Softplus"),
    "Softsign": _softsign,
    "Sqrt": _unary("Sqrt"),
    "Sub": _several("Sub"),
    "Sum": _several("Add"),
    "Tanh": _unary("Tanh"),
}
