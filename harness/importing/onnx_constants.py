"""Computes ONNX operators on constants: shapes and indices, and tables such as anchors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.importing.onnx_operator import Operator

Array = npt.NDArray[Any]

_LARGEST = 1 << 22  # elements of a computed constant that is larger than what it is computed from
_SHAPES = ("Shape", "Size")
# Whose output is not larger than the inputs together.
_MOVING = frozenset(
    [
        "Abs",
        "ArgMax",
        "ArgMin",
        "Cast",
        "CastLike",
        "Ceil",
        "Concat",
        "Cos",
        "CumSum",
        "Erf",
        "Exp",
        "Flatten",
        "Floor",
        "Log",
        "Neg",
        "NonZero",
        "Not",
        "Reciprocal",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "ScatterElements",
        "ScatterND",
        "Sigmoid",
        "Sign",
        "Sin",
        "Slice",
        "Softmax",
        "Split",
        "Sqrt",
        "Squeeze",
        "Tanh",
        "TopK",
        "Transpose",
        "Trilu",
        "Unsqueeze",
    ]
)
_BROADCAST = frozenset(
    [
        "Add",
        "And",
        "Clip",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "Pow",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    ]
)


def constant_value(operator: Operator) -> list[str] | None:
    """The outputs of an operator that reads only constants, or only shapes; None for any other."""
    kind = operator.node.op_type
    if kind == "Constant":
        return [_stored(operator)]
    if kind in _SHAPES:
        return [_shape(operator, kind)]
    if operator.node.domain not in ("", "ai.onnx") or not operator.node.output:
        return None
    names = [operator.values[name] if name else "" for name in operator.node.input]
    if any(name and operator.builder.graph.value(name) is None for name in names):
        return None
    values = [operator.builder.graph.value(name) if name else None for name in names]
    size = _size(kind, [value for value in values if value is not None], operator)
    if size is None:
        return None
    if not 0 <= size <= max(_LARGEST, sum(value.size for value in values if value is not None)):
        raise operator.unsupported(f"its constant output has more than {_LARGEST} elements")
    return [operator.builder.graph.constant(value, name=kind) for value in _computed(operator, values)]


def _stored(operator: Operator) -> str:
    return operator.builder.graph.constant(_constant(operator), name=operator.node.output[0], stored=True)


def _constant(operator: Operator) -> Array:
    """The value of a Constant, of which there are six kinds."""
    tensor = operator.tensor("value")
    if tensor is not None:
        return tensor
    if operator.has_attribute("value_float"):
        return np.array(operator.number("value_float"), np.float32)
    if operator.has_attribute("value_int"):
        return np.array(operator.integer("value_int"), np.int64)
    if operator.has_attribute("value_floats"):
        return np.array(operator.numbers("value_floats"), np.float32)
    if operator.has_attribute("value_ints"):
        return np.array(operator.integers("value_ints"), np.int64)
    raise operator.unsupported("it has no numbers")


def _shape(operator: Operator, kind: str) -> str:
    shape = operator.builder.shape(operator.input(0))
    if kind == "Size":
        value = np.array(math.prod(shape), np.int64)
    else:
        start, end = operator.integer("start"), operator.integer("end", len(shape))
        value = np.array(shape[start:end], np.int64)
    return operator.builder.graph.constant(value, name=kind)


def _size(kind: str, values: list[Array], operator: Operator) -> float | None:
    """About how many elements the output has, at most; None for an operator that is not computed here."""
    if not values:
        return None
    total, first = sum(value.size for value in values), values[0]
    try:
        match kind:
            case _ if kind in _MOVING:
                return total
            case _ if kind in _BROADCAST:
                return math.prod(np.broadcast_shapes(*(value.shape for value in values if value.size)))
            case "ConstantOfShape":
                return _product(first)
            case "Expand":
                return float(max(_product(values[1]), 1) * max(first.size, 1))
            case "Tile":
                return float(first.size * _product(values[1]))
            case "Range":
                start, limit, step = (float(value.reshape(-1)[0]) for value in values)
                return float(abs(limit - start) / abs(step))
            case "Gather":
                return float(values[1].size * first.size / max(first.shape[operator.integer("axis")], 1))
            case "MatMul":
                return float(first.size * values[1].size / max(first.shape[-1], 1))
            case _:
                return None
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        raise operator.unsupported("its constant inputs do not fit") from None


def _product(sizes: Array) -> float:
    return math.prod(abs(float(size)) for size in sizes.reshape(-1))


def _computed(operator: Operator, values: list[Array | None]) -> list[Array]:
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    inputs = [f"x{place}" if value is not None else "" for place, value in enumerate(values)]
    outputs = [f"y{place}" for place in range(len(operator.node.output))]
    node = type(operator.node)()
    node.CopyFrom(operator.node)
    del node.input[:], node.output[:]
    node.input.extend(inputs)
    node.output.extend(outputs)
    graph = helper.make_graph(
        [node],
        "constant",
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in inputs if name],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", operator.opset)])
    fed = {name: value for name, value in zip(inputs, values, strict=True) if value is not None}
    try:
        with np.errstate(all="ignore"):
            found = [np.asarray(value) for value in ReferenceEvaluator(model).run(None, fed)]
    except Exception as error:  # noqa: BLE001 - what the reference raises for wrong inputs is not specified
        raise operator.unsupported(f"its value cannot be computed: {type(error).__name__}") from None
    if any(value.dtype.kind not in "fiub" for value in found):
        raise operator.unsupported("its value has no numbers")
    return [value.astype(np.float32) if value.dtype.kind == "f" else value for value in found]
