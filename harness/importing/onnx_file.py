"""Decodes an ONNX file and checks it: sizes against the bytes that are there, and where its data lies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError, file_error
from harness.files import open_regular, read_regular
from harness.importing.graph import MOST_NODES, can_be_held
from harness.importing.onnx_functions import inlined

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto

Array = npt.NDArray[Any]

OLDEST_OPSET = 7
_LARGEST_FILE = 1 << 31  # bytes: the limit of a protocol buffer
_MOST_AXES = 16
# onnx.TensorProto's types: NumPy's type, and the field that has the numbers if raw_data has not.
_TYPES: Mapping[int, tuple[str, str]] = {
    1: ("float32", "float_data"),
    2: ("uint8", "int32_data"),
    3: ("int8", "int32_data"),
    4: ("uint16", "int32_data"),
    5: ("int16", "int32_data"),
    6: ("int32", "int32_data"),
    7: ("int64", "int64_data"),
    9: ("bool", "int32_data"),
    10: ("float16", "int32_data"),
    11: ("float64", "double_data"),
    12: ("uint32", "uint64_data"),
    13: ("uint64", "uint64_data"),
    16: ("bfloat16", "int32_data"),
}
_EXTERNAL = 1  # TensorProto.DataLocation


def read_onnx_model(path: Path) -> ModelProto:
    """Reads an ONNX file with its functions inlined. Raises ConfigurationError if it is damaged."""
    try:
        data = read_regular(path, limit=_LARGEST_FILE, what="an ONNX model")
    except OSError as error:
        raise file_error(path, error) from None
    return parse_onnx_model(data, str(path))


def parse_onnx_model(data: bytes, file: str) -> ModelProto:
    """The same for a file's content."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, defs

    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError, MemoryError):
        raise _damaged(file, "it cannot be decoded") from None
    if not model.HasField("graph") or not model.graph.node:
        raise _damaged(file, "it has no operations")
    opset = opset_of(model)
    newest = defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise ConfigurationError(
            f"{file}: is of opset {opset}; opsets {OLDEST_OPSET} to {newest} can be imported",
            hint="Export the model again with opset_version=17.",
        )
    if model.functions:
        model = inlined(model, file)
    if len(model.graph.node) > MOST_NODES:
        raise ConfigurationError(f"{file}: has more than {MOST_NODES} operations")
    if model.graph.sparse_initializer:
        raise ConfigurationError(f"{file}: has sparse weights, which cannot be imported")
    _check_names(model.graph, file)
    return model


def _check_names(graph: GraphProto, file: str) -> None:
    """Raises ConfigurationError for a name that is no UTF-8: the decoder leaves it as bytes."""
    names: list[object] = [info.name for info in (*graph.input, *graph.output, *graph.initializer)]
    for node in graph.node:
        names += [node.op_type, node.name, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            names.append(attribute.name)
            if attribute.HasField("g"):
                _check_names(attribute.g, file)
    for name in names:
        if not isinstance(name, str):
            raise _damaged(file, f"the name {name!r} is no text")


def opset_of(model: ModelProto) -> int:
    """The version of the operators without a domain; 0 if the file does not say."""
    versions = [int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return max(versions, default=0)


def numbers_of(tensor: TensorProto, folder: Path | None, file: str) -> Array:
    """A constant's numbers; all floating-point types as float32.

    `folder`: where external data may lie. Raises ConfigurationError if the declared size is not that of the
    data, or if the data lies elsewhere.
    """
    name = tensor.name
    if tensor.data_type not in _TYPES:
        raise ConfigurationError(f"{file}: the constant {name!r} has numbers of type {tensor.data_type}")
    kind, field = _TYPES[tensor.data_type]
    shape = tuple(int(size) for size in tensor.dims)
    count = math.prod(shape)
    if not can_be_held(shape) or len(shape) > _MOST_AXES:
        raise ConfigurationError(f"{file}: the constant {name!r} has the shape {shape}")
    width = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
    if tensor.data_location == _EXTERNAL:
        raw = _external(tensor, folder, file, count * width)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _listed(tensor, field, kind, shape, file)
    if len(raw) != count * width:
        raise _damaged(file, f"the constant {name!r} has {len(raw)} bytes instead of {count * width}")
    return _as_numbers(
        np.frombuffer(raw, "<u2" if width == 2 else np.dtype(kind).newbyteorder("<")), kind, shape
    )


def _listed(tensor: TensorProto, field: str, kind: str, shape: tuple[int, ...], file: str) -> Array:
    values = getattr(tensor, field)
    if len(values) != math.prod(shape):
        raise _damaged(file, f"the constant {tensor.name!r} has {len(values)} numbers for {shape}")
    if kind in ("float16", "bfloat16"):
        return _as_numbers(np.array(values, np.int64).astype(np.uint16), kind, shape)
    # Values outside of the type's range wrap, as in C.
    widest = np.float64 if kind.startswith("float") else np.uint64 if kind == "uint64" else np.int64
    with np.errstate(all="ignore"):
        narrow = np.array(values, widest).astype(kind)
        return narrow.astype(np.float32 if kind.startswith("float") else kind).reshape(shape)


def _as_numbers(stored: Array, kind: str, shape: tuple[int, ...]) -> Array:
    if kind == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32).reshape(shape)
    native = stored.astype(stored.dtype.newbyteorder("="))
    if np.dtype(kind).itemsize == 2:
        native = native.view(kind)
    return (native.astype(np.float32) if kind.startswith("float") else native).reshape(shape)


def _external(tensor: TensorProto, folder: Path | None, file: str, size: int) -> bytes:
    """Data in a file beside the model, or below its folder: no other file is opened."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    name = entries.get("location", "")
    if folder is None or not name:
        raise _damaged(file, f"the data of {tensor.name!r} has no place")
    home = folder.resolve()
    if "\0" in name:
        raise _damaged(file, f"the place of the data of {tensor.name!r} is no name")
    place = (home / name).resolve()
    if not place.is_relative_to(home) or place == home:
        raise ConfigurationError(
            f"{file}: the data of {tensor.name!r} lies outside of the model's folder: {name}",
            hint="Models from others may name any file: put the data beside the model.",
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        with open_regular(place) as stream:
            available = place.stat().st_size - offset
            if length != size or offset < 0 or length > available:
                raise _damaged(file, f"{name} has {available} bytes for {tensor.name!r}, which needs {size}")
            stream.seek(offset)
            return stream.read(length)
    except ValueError:
        raise _damaged(file, f"the place of the data of {tensor.name!r} is no number") from None
    except OSError as error:
        raise file_error(place, error) from None


def _damaged(file: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{file}: not an ONNX model, or a damaged one: {reason}", hint="Fetch or export the file again."
    )
