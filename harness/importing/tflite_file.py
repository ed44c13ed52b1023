"""Decodes a TensorFlow Lite file into plain data and checks it: the rest of the import trusts the result."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError, file_error
from harness.files import read_regular
from harness.importing.graph import MOST_NODES, can_be_held
from harness.importing.tflite_sparse import expanded

Array = npt.NDArray[Any]

_LARGEST_FILE = 1 << 31  # bytes: the limit of a flatbuffer
_MOST_AXES = 16
_FREE, _COPIES = 1 << 20, 8  # bytes that may be read from any file, and how often each that it has
_SPARSE = 8  # an expanded sparse constant counts as one byte in so many: its zeros are not in the file
_TYPES: Mapping[int, str] = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8",
    10: "float64", 12: "uint64", 15: "uint32", 16: "uint16",
}  # fmt: skip
# What flatbuffers' accessors raise when an offset or a length in the file is wrong.
_BROKEN = (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError)


@dataclass(frozen=True, kw_only=True)
class FlatTensor:
    """A tensor as the file declares it. `data` is None where it is computed."""

    name: str
    shape: tuple[int, ...]
    type: str  # NumPy's name
    data: Array | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int


@dataclass(frozen=True, kw_only=True)
class FlatOperator:
    """An operator with its options by name; absent inputs are -1."""

    name: str  # such as CONV_2D; that of a custom operator
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    custom_options: bytes


@dataclass(frozen=True, kw_only=True)
class FlatModel:
    """The first subgraph of a file."""

    tensors: tuple[FlatTensor, ...]
    operators: tuple[FlatOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: bytes = b""  # TensorFlow Lite's own, about the input among others


def read_flat_model(path: Path) -> FlatModel:
    """Reads a TensorFlow Lite file. Raises ConfigurationError if it is damaged or of another kind."""
    try:
        data = read_regular(path, limit=_LARGEST_FILE, what="a TensorFlow Lite model")
    except OSError as error:
        raise file_error(path, error) from None
    return parse_flat_model(data, str(path))


def parse_flat_model(data: bytes, file: str) -> FlatModel:
    """The same for a file's content."""
    import tflite

    try:
        if len(data) < 8 or data[4:8] != b"TFL3":
            raise ValueError("it does not begin as one")
        model = tflite.Model.GetRootAs(data, 0)
        if model.SubgraphsLength() < 1:
            raise ValueError("it has no graph")
        return _decoded(model, model.Subgraphs(0), _Budget(len(data)))
    except _BROKEN as error:
        reason = str(error) if isinstance(error, ValueError) else "an offset in it is wrong"
        raise ConfigurationError(
            f"{file}: not a TensorFlow Lite model, or a damaged one: {reason}",
            hint="Fetch or export the file again.",
        ) from None


class _Budget:
    """What may be read from a file: its tables and lists may share places, so that a small file has many."""

    def __init__(self, size: int) -> None:
        self._left = _FREE + _COPIES * size

    def take(self, size: int) -> None:
        """Counts bytes that are copied. Raises ValueError if all of them are far more than the file has."""
        self._left -= size
        if self._left < 0:
            raise ValueError("its parts are far larger than the file")


def _decoded(model: Any, graph: Any, budget: _Budget) -> FlatModel:
    count = graph.TensorsLength()
    if not 0 < count <= 4 * MOST_NODES or graph.OperatorsLength() > MOST_NODES:
        raise ValueError(f"it declares {count} tensors and {graph.OperatorsLength()} operators")
    tensors = tuple(_tensor(model, graph.Tensors(index), budget) for index in range(count))
    operators = tuple(
        _operator(model, graph.Operators(index), count, budget) for index in range(graph.OperatorsLength())
    )
    return FlatModel(
        tensors=tensors,
        operators=operators,
        inputs=_indices(graph.InputsAsNumpy(), count, budget),
        outputs=_indices(graph.OutputsAsNumpy(), count, budget),
        metadata=_metadata(model),
    )


def _metadata(model: Any) -> bytes:
    for place in range(min(model.MetadataLength(), 64)):
        entry = model.Metadata(place)
        if entry.Name() == b"TFLITE_METADATA" and 0 <= entry.Buffer() < model.BuffersLength():
            data = model.Buffers(entry.Buffer()).DataAsNumpy()
            return data.tobytes() if isinstance(data, np.ndarray) else b""
    return b""


def _indices(found: Any, count: int, budget: _Budget) -> tuple[int, ...]:
    budget.take(getattr(found, "nbytes", 0))
    numbers = tuple(int(number) for number in np.atleast_1d(found)) if isinstance(found, np.ndarray) else ()
    if any(not -1 <= number < count for number in numbers):
        raise ValueError("an operator reads a tensor that does not exist")
    return numbers


def _tensor(model: Any, tensor: Any, budget: _Budget) -> FlatTensor:
    written = tensor.Name() or b""
    budget.take(len(written))
    name = written.decode("utf-8", "replace")
    if tensor.ShapeLength() > _MOST_AXES:
        raise ValueError(f"the tensor {name!r} has {tensor.ShapeLength()} axes")
    shape = tuple(int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength()))
    if not can_be_held(shape):
        raise ValueError(f"the tensor {name!r} has the shape {shape}")
    kind = _TYPES.get(tensor.Type(), f"type {tensor.Type()}")
    scales, zero_points, axis = _grid(tensor, budget)
    return FlatTensor(
        name=name,
        shape=shape,
        type=kind,
        data=_constant(model, tensor, name, shape, kind, budget),
        scales=scales,
        zero_points=zero_points,
        axis=axis,
    )


def _constant(
    model: Any, tensor: Any, name: str, shape: tuple[int, ...], kind: str, budget: _Budget
) -> Array | None:
    index = tensor.Buffer()
    if not 0 <= index < model.BuffersLength():
        raise ValueError(f"the tensor {name!r} has no buffer")
    buffer = model.Buffers(index)
    length = buffer.DataLength()
    if index == 0 or length == 0:
        return None
    raw = buffer.DataAsNumpy()
    if kind not in _TYPES.values():
        raise ValueError(f"the constant {name!r} has numbers of {kind}")
    number = np.dtype(kind).newbyteorder("<")
    needed = math.prod(shape) * number.itemsize
    if (sparsity := tensor.Sparsity()) is not None:
        budget.take(needed // _SPARSE)
        budget.take(raw.nbytes)
        if raw.nbytes % number.itemsize:
            raise ValueError(f"the constant {name!r} has {raw.nbytes} bytes")
        try:
            return expanded(np.frombuffer(raw.tobytes(), number), sparsity, shape)
        except ValueError as error:
            raise ValueError(f"the sparse constant {name!r}: {error}") from None
    if needed != raw.nbytes:
        raise ValueError(f"the constant {name!r} has {raw.nbytes} bytes instead of {needed}")
    budget.take(needed)
    # A copy: the file's own bytes may lie at any address.
    return np.frombuffer(raw.tobytes(), dtype=number).reshape(shape)


def _grid(tensor: Any, budget: _Budget) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    grid = tensor.Quantization()
    if grid is None or grid.ScaleLength() == 0:
        return (), (), 0
    budget.take(4 * grid.ScaleLength() + 8 * grid.ZeroPointLength())
    scales = tuple(float(scale) for scale in np.atleast_1d(grid.ScaleAsNumpy()))
    zeros = tuple(int(zero) for zero in np.atleast_1d(grid.ZeroPointAsNumpy())) or (0,)
    if not all(math.isfinite(scale) and scale >= 0 for scale in scales):
        raise ValueError(f"the tensor {tensor.Name()!r} has a scale that is no positive number")
    zeros *= len(scales) if len(zeros) == 1 else 1
    if len(zeros) != len(scales):
        raise ValueError(
            f"the tensor {tensor.Name()!r} has {len(zeros)} zero points for {len(scales)} scales"
        )
    return scales, zeros, int(grid.QuantizedDimension())


def _operator(model: Any, operator: Any, tensors: int, budget: _Budget) -> FlatOperator:
    code = model.OperatorCodes(operator.OpcodeIndex())
    if not 0 <= operator.OpcodeIndex() < model.OperatorCodesLength():
        raise ValueError("an operator has no code")
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    name = _codes().get(number, f"operator {number}")
    custom = name == "CUSTOM"
    if custom:
        name = (code.CustomCode() or b"").decode("utf-8", "replace")
    budget.take(len(name) + operator.CustomOptionsLength())
    raw = operator.CustomOptionsAsNumpy() if operator.CustomOptionsLength() else b""
    return FlatOperator(
        name=name,
        custom=custom,
        inputs=_indices(operator.InputsAsNumpy(), tensors, budget),
        outputs=_indices(operator.OutputsAsNumpy(), tensors, budget),
        options=dict(_options(operator, budget)),
        custom_options=bytes(raw),
    )


@cache
def _codes() -> Mapping[int, str]:
    import tflite

    return {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}


@cache
def _option_classes() -> Mapping[int, type[Any]]:
    import tflite

    names = {number: name for name, number in vars(tflite.BuiltinOptions).items() if isinstance(number, int)}
    return {number: getattr(tflite, name) for number, name in names.items() if hasattr(tflite, name)}


def _options(operator: Any, budget: _Budget) -> Iterator[tuple[str, Any]]:
    """The options by the names of the schema's accessors; vectors as tuples."""
    table, kind = operator.BuiltinOptions(), _option_classes().get(operator.BuiltinOptionsType())
    if table is None or kind is None:
        return
    options = kind()
    options.Init(table.Bytes, table.Pos)
    for name, accessor in vars(kind).items():
        if not isinstance(accessor, FunctionType) or name.endswith(("Length", "IsNone")):
            continue
        if name.endswith("AsNumpy"):
            found = getattr(options, name)()
            if isinstance(found, np.ndarray):
                budget.take(found.nbytes)
                yield name.removesuffix("AsNumpy"), tuple(found.tolist())
        elif accessor.__code__.co_argcount == 1:
            yield name, getattr(options, name)()
