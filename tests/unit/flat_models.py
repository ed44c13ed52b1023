"""Small TensorFlow Lite files, written by hand: also such as no converter would write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of a sparse tensor: a dense one of `size`, or with `size` 0 segments and indices of a type."""

    size: int = 0
    segments: Sequence[int] = ()
    indices: Sequence[int] = ()
    type: int = 1  # Int32Vector, Uint16Vector or Uint8Vector


@dataclass(frozen=True, kw_only=True)
class Sparsity:
    """How the values of a sparse tensor are stored; `levels` in the order of `traversal`."""

    traversal: Sequence[int]
    blocks: Sequence[int]
    levels: Sequence[Level]


@dataclass(frozen=True, kw_only=True)
class FlatTensor:
    """A tensor; `data` are the bytes of a constant, `buffer` another number than that of its own buffer."""

    name: str
    shape: Sequence[int] = (1, 4, 4, 2)
    data: bytes = b""
    type: int = 0  # float32
    buffer: int | None = None
    sparsity: Sparsity | None = None


@dataclass(frozen=True, kw_only=True)
class FlatOperator:
    """An operator by its number in the schema; `options` writes its table and returns kind and place."""

    code: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Callable[[Any], tuple[int, int]] | None = None


def flat_model(
    tensors: Sequence[FlatTensor],
    operators: Sequence[FlatOperator],
    inputs: Sequence[int] = (0,),
    outputs: Sequence[int] = (1,),
    *,
    copies: tuple[int, int] = (1, 1),
) -> bytes:
    """The file's content. `copies`: how often the lists name each tensor and each operator, stored once."""
    b = flatbuffers.Builder(1024)
    made = [_tensor(b, tensor, place + 1) for place, tensor in enumerate(tensors)] * copies[0]
    codes = sorted({operator.code for operator in operators})
    nodes = [_operator(b, operator, codes.index(operator.code)) for operator in operators] * copies[1]
    b_tensors, b_nodes = _offsets(b, made), _offsets(b, nodes)
    b_inputs, b_outputs = b.CreateNumpyVector(_int32(inputs)), b.CreateNumpyVector(_int32(outputs))
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, b_tensors)
    tflite.SubGraphAddOperators(b, b_nodes)
    tflite.SubGraphAddInputs(b, b_inputs)
    tflite.SubGraphAddOutputs(b, b_outputs)
    graphs = _offsets(b, [tflite.SubGraphEnd(b)])
    b_codes = _offsets(b, [_code(b, code) for code in codes])
    buffers = _offsets(b, [_buffer(b, data) for data in (b"", *(tensor.data for tensor in tensors))])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddOperatorCodes(b, b_codes)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def _tensor(b: Any, tensor: FlatTensor, buffer: int) -> int:
    name, shape = b.CreateString(tensor.name), b.CreateNumpyVector(_int32(tensor.shape))
    sparsity = _sparsity(b, tensor.sparsity) if tensor.sparsity else 0
    tflite.TensorStart(b)
    if sparsity:
        tflite.TensorAddSparsity(b, sparsity)
    tflite.TensorAddName(b, name)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, tensor.type)
    tflite.TensorAddBuffer(b, buffer if tensor.buffer is None else tensor.buffer)
    return int(tflite.TensorEnd(b))


def _sparsity(b: Any, sparsity: Sparsity) -> int:
    levels = _offsets(b, [_level(b, level) for level in sparsity.levels])
    order = b.CreateNumpyVector(_int32(sparsity.traversal))
    blocks = b.CreateNumpyVector(_int32(sparsity.blocks))
    tflite.SparsityParametersStart(b)
    tflite.SparsityParametersAddTraversalOrder(b, order)
    if sparsity.blocks:
        tflite.SparsityParametersAddBlockMap(b, blocks)
    tflite.SparsityParametersAddDimMetadata(b, levels)
    return int(tflite.SparsityParametersEnd(b))


def _level(b: Any, level: Level) -> int:
    lists = [] if level.size else [_list(b, values, level.type) for values in (level.segments, level.indices)]
    tflite.DimensionMetadataStart(b)
    tflite.DimensionMetadataAddFormat(b, 0 if level.size else 1)
    tflite.DimensionMetadataAddDenseSize(b, level.size)
    if lists:
        tflite.DimensionMetadataAddArraySegmentsType(b, level.type)
        tflite.DimensionMetadataAddArraySegments(b, lists[0])
        tflite.DimensionMetadataAddArrayIndicesType(b, level.type)
        tflite.DimensionMetadataAddArrayIndices(b, lists[1])
    return int(tflite.DimensionMetadataEnd(b))


def _list(b: Any, values: Sequence[int], kind: int) -> int:
    name, number = (("Int32", np.int32), ("Uint16", np.uint16), ("Uint8", np.uint8))[kind - 1]
    stored = b.CreateNumpyVector(np.array(values, number))
    getattr(tflite, f"{name}VectorStart")(b)
    getattr(tflite, f"{name}VectorAddValues")(b, stored)
    return int(getattr(tflite, f"{name}VectorEnd")(b))


def _operator(b: Any, operator: FlatOperator, code: int) -> int:
    kind, place = operator.options(b) if operator.options else (0, 0)
    inputs, outputs = (
        b.CreateNumpyVector(_int32(operator.inputs)),
        b.CreateNumpyVector(_int32(operator.outputs)),
    )
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code)
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    if operator.options:
        tflite.OperatorAddBuiltinOptionsType(b, kind)
        tflite.OperatorAddBuiltinOptions(b, place)
    return int(tflite.OperatorEnd(b))


def _code(b: Any, code: int) -> int:
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))  # a byte, which came first
    tflite.OperatorCodeAddBuiltinCode(b, code)
    return int(tflite.OperatorCodeEnd(b))


def _buffer(b: Any, data: bytes) -> int:
    stored = b.CreateByteVector(data) if data else 0
    tflite.BufferStart(b)
    if data:
        tflite.BufferAddData(b, stored)
    return int(tflite.BufferEnd(b))


def _offsets(b: Any, places: Sequence[int]) -> int:
    b.StartVector(4, len(places), 4)
    for place in reversed(places):
        b.PrependUOffsetTRelative(place)
    return int(b.EndVector())


def _int32(values: Sequence[int]) -> Any:
    return np.array(values, np.int32)
