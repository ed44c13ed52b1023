"""ONNX's quantised operators: real numbers on grids, computed by the operators without quantisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.importing.builder import Builder
from harness.importing.graph import Array
from harness.importing.onnx_images import convolution, pool
from harness.importing.onnx_operator import Operator
from harness.importing.quantization import Quantization

_WHOLE = "iu"


def _grid(o: Operator, scale: int, zero: int, kind: str, axis: int = 0) -> Quantization:
    """The grid by the inputs with its scale and zero point; `kind` where there is no zero point."""
    numbers = o.builder.value(o.input(scale), "a scale")
    if o.has(zero):
        zeros = o.builder.value(o.input(zero), "a zero point")
        kind = str(zeros.dtype) if zeros.dtype.kind in _WHOLE else kind
    else:
        zeros = np.zeros(1, np.int64)
    return o.builder.grid(numbers, zeros, kind, axis)


def _real(o: Operator, number: int, axis: int = 0) -> str:
    """An operand of which the two inputs behind it are the scale and the zero point, as real numbers."""
    return dequantised(o, number, number + 1, number + 2, axis)


def dequantised(o: Operator, number: int, scale: int, zero: int, axis: int = 0) -> str:
    """A tensor of integers as real numbers on its grid."""
    name, graph = o.input(number), o.builder.graph
    value = graph.value(name)
    if value is None:
        grid = _grid(o, scale, zero, "uint8")
        if graph.quantization(name) is None:
            graph.annotate(name, grid)
        return name
    kind = str(value.dtype)
    grid = _grid(o, scale, zero, kind, axis)
    if len(grid.scales) > 1 and (axis >= value.ndim or value.shape[axis] != len(grid.scales)):
        raise o.unsupported(f"{len(grid.scales)} scales for the shape {value.shape}")
    sizes = [1] * value.ndim
    if len(grid.scales) > 1:
        sizes[axis] = len(grid.scales)
    shift = 1 << (grid.bits - 1) if kind.startswith("u") else 0
    stored = value.astype(np.float64) - shift - _shaped(grid.zero_points, sizes)
    real = (stored * _shaped(grid.scales, sizes)).astype(np.float32)
    return graph.constant(real, name=name, quantization=grid if grid.bits <= 16 else None)


def _shaped(
    numbers: Sequence[float], sizes: Sequence[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(numbers, np.float64).reshape(sizes if len(numbers) > 1 else [1] * len(sizes))


def _on_grid(o: Operator, name: str, scale: int, zero: int, axis: int = 0) -> list[str]:
    """The output, on the grid that two inputs describe."""
    found = o.builder.emit("Identity", name)
    if o.builder.graph.value(found) is None:
        o.builder.graph.annotate(found, _grid(o, scale, zero, "uint8", axis))
    return [found]


def _quantize(o: Operator) -> list[str]:
    value = o.builder.graph.value(o.input(0))
    if value is not None:
        return [_quantised_constant(o, value)]
    return _on_grid(o, o.input(0), 1, 2, _axis(o))


def _quantised_constant(o: Operator, value: Array) -> str:
    """Weights that the model quantises itself, as those of quantisation-aware training."""
    zeros = o.builder.value(o.input(2), "a zero point") if o.has(2) else np.zeros(1, np.uint8)
    scales = o.builder.value(o.input(1), "a scale").astype(np.float64).reshape(-1)
    if zeros.dtype.kind not in _WHOLE or zeros.size not in (1, scales.size) or not np.all(scales > 0):
        raise o.unsupported("its scales and zero points do not fit")
    sizes = [1] * value.ndim
    if scales.size > 1:
        axis = o.builder.axis(o.integer("axis", 1), value.ndim)
        if value.shape[axis] != scales.size:
            raise o.unsupported(f"{scales.size} scales for the shape {value.shape}")
        sizes[axis] = scales.size
    shifts = np.broadcast_to(zeros.reshape(-1).astype(np.float64), scales.shape).reshape(sizes)
    limits = np.iinfo(zeros.dtype)
    stored = np.clip(np.rint(value / scales.reshape(sizes)) + shifts, limits.min, limits.max)
    return o.builder.graph.constant(stored.astype(zeros.dtype), name=o.node.output[0])


def _dequantize(o: Operator) -> list[str]:
    return [dequantised(o, 0, 1, 2, _axis(o))]


def _axis(o: Operator) -> int:
    """Along which the scales lie, if there are several."""
    rank = o.rank()
    return o.builder.axis(o.integer("axis", 1), rank) if rank > 1 else 0


def _bias(o: Operator, number: int, *scales: int) -> list[str]:
    """int32 biases, in steps of the product of the input's and the weights' scales."""
    if not o.has(number):
        return []
    stored = o.builder.value(o.input(number), "the biases").astype(np.float64)
    for scale in scales:
        stored = stored * o.builder.value(o.input(scale), "a scale").astype(np.float64).reshape(-1)
    return [o.builder.graph.constant(stored.astype(np.float32), name=o.node.input[number])]


def _convolution(o: Operator) -> list[str]:
    image, weights = _real(o, 0), _real(o, 3)
    bias = _bias(o, 8, 1, 4)
    return _on_grid(o, convolution(o, image, weights, bias[0] if bias else None), 6, 7)


def _matmul(o: Operator) -> list[str]:
    first, second = _real(o, 0), _real(o, 3, axis=o.rank(3) - 1)
    return _on_grid(o, o.builder.emit("MatMul", first, second), 6, 7)


def _gemm(o: Operator) -> list[str]:
    """com.microsoft's QGemm."""
    turned = bool(o.integer("transB"))
    first, second = _real(o, 0), _real(o, 3, axis=0 if turned else 1)
    if o.integer("transA") or o.number("alpha", 1.0) != 1.0:
        raise o.unsupported("a transposed or scaled first matrix is not supported")
    weights = second if turned else o.builder.transpose(second, (1, 0))
    found = o.builder.emit("Linear", first, weights, *_bias(o, 6, 1, 4))
    return _on_grid(o, found, 7, 8) if o.has(7) else [found]


def _binary(op: str) -> Callable[[Operator], Sequence[str]]:
    return lambda o: _on_grid(o, o.builder.emit(op, _real(o, 0), _real(o, 3)), 6, 7)


def _unary(op: str) -> Callable[[Operator], Sequence[str]]:
    def translate(o: Operator) -> list[str]:
        attributes = {"alpha": o.number("alpha", 0.01)} if op == "LeakyRelu" else {}
        return _on_grid(o, o.builder.emit(op, _real(o, 0), **attributes), 3, 4)

    return translate


def _softmax(o: Operator) -> list[str]:
    return _on_grid(o, o.builder.emit("Softmax", _real(o, 0), axis=o.axis(default=-1)), 3, 4)


def _concat(o: Operator) -> list[str]:
    """com.microsoft's QLinearConcat: the output's scale and zero point, then three inputs for each tensor."""
    names = [_real(o, number) for number in range(2, len(o.node.input), 3)]
    axis = o.builder.axis(o.integer("axis"), len(o.builder.shape(names[0])))
    return _on_grid(o, o.builder.concat(names, axis), 0, 1)


def _pool(o: Operator) -> list[str]:
    if o.integer("channels_last"):
        raise o.unsupported("channels-last pools are not supported")
    return _on_grid(o, pool(o, "AveragePool", _real(o, 0)), 3, 4)


def _global_pool(o: Operator) -> list[str]:
    if o.integer("channels_last"):
        raise o.unsupported("channels-last pools are not supported")
    axes = tuple(range(2, o.rank()))
    return _on_grid(o, o.builder.emit("ReduceMean", _real(o, 0), axes=axes), 3, 4)


def _dynamic_quantize(o: Operator) -> list[str]:
    """Real numbers instead of integers: their scale is 1 then."""
    builder: Builder = o.builder
    zero = builder.graph.constant(np.array(0, np.uint8), name="zero_point")
    return [builder.emit("Identity", o.input(0)), builder.scalar(1.0), zero]


def _integers(o: Operator, number: int, zero: int, axis: int) -> str:
    """Integer weights whose scale the model applies afterwards."""
    value = o.builder.value(o.input(number), "the weights")
    zeros = o.builder.value(o.input(zero), "a zero point") if o.has(zero) else np.zeros(1, value.dtype)
    sizes = [1] * value.ndim
    if zeros.size > 1:
        sizes[axis] = zeros.size
    grid = o.builder.grid(np.ones(zeros.size), zeros, str(value.dtype), axis)
    real = value.astype(np.float32) - zeros.astype(np.float32).reshape(sizes)
    return o.builder.graph.constant(real, name=o.node.input[number], quantization=grid)


def _matmul_integer(o: Operator) -> list[str]:
    return [o.builder.emit("MatMul", o.input(0), _integers(o, 1, 3, o.rank(1) - 1))]


def _conv_integer(o: Operator) -> list[str]:
    return [convolution(o, o.input(0), _integers(o, 1, 3, 0), None)]


QUANTISED_OPERATORS: Mapping[str, Callable[[Operator], Sequence[str]]] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _matmul_integer,
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearAveragePool": _pool,
    "QLinearConcat": _concat,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _global_pool,
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearMatMul": _matmul,
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QuantizeLinear": _quantize,
}
