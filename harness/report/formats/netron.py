"""An exported ONNX file whose nodes have their layers' precision and time, which Netron shows."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError
from harness.files import read_regular
from harness.report.formats.profiled import only_profile
from harness.report.layers import nanoseconds
from harness.report.result import Report

if TYPE_CHECKING:
    from onnx import ModelProto

_LARGEST = 2**31 - 1  # bytes of a protocol buffer
_NODE_METADATA = 10  # the first version of the format in which nodes have metadata


def annotated(report: Report, file: Path) -> bytes:
    """The model with the layers of the report's cell in the metadata and the description of its nodes.

    `harness export` names each node after its layer: `convolutional_4/LeakyRelu:LeakyRelu`. Raises
    ConfigurationError if the report has not exactly one cell with a profile, or no node is one of its layers.
    """
    row = only_profile(report, "netron")
    model = _read(file)
    notes = {
        f"{layer.type}_{layer.index}": {
            "precision": layer.executed,
            "predicted ms" if row.emulated else "ms": f"{(nanoseconds(row, layer) or 0) / 1e6:.6g}",
            "algorithm": layer.algorithm,
            "instruction set": layer.isa,
        }
        for layer in row.layers
    }
    found = 0
    for node in model.graph.node:
        note = notes.get(node.name.partition(":")[0].partition("/")[0])
        if note is None or "/weights" in node.name or "/bias" in node.name:
            continue
        found += 1
        node.doc_string = f"{row.name}: " + ", ".join(f"{name} {value}" for name, value in note.items())
        for name, value in note.items():
            node.metadata_props.add(key=f"harness {name}", value=value)
    if not found:
        raise ConfigurationError(
            f"{file}: no node has the name of a layer of {row.name}",
            hint="Name the file that `harness export --format onnx` has written for this model.",
        )
    model.ir_version = max(model.ir_version, _NODE_METADATA)
    return bytes(model.SerializeToString())


def _read(file: Path) -> ModelProto:
    if find_spec("onnx") is None:
        raise ConfigurationError(
            "--format netron needs the Python package onnx", hint="Install it: pip install 'harness[import]'"
        )
    from google.protobuf.message import DecodeError
    from onnx import load_from_string

    content = read_regular(file, limit=_LARGEST, what="an ONNX file")
    try:
        return load_from_string(content)
    except DecodeError:
        raise ConfigurationError(
            f"{file}: not an ONNX file", hint="Check that it is the right file."
        ) from None
