"""An ONNX file of `harness export`, whose nodes are named after their layers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError
from harness.files import read_regular
from harness.report.result import Row
from harness.runtimes.base import LayerResult

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_LARGEST = 2**31 - 1  # bytes of a protocol buffer


def read_exported(file: Path, form: str) -> ModelProto:
    """Raises ConfigurationError if the file is not ONNX; `form` is the format of the report that needs it."""
    if find_spec("onnx") is None:
        raise ConfigurationError(
            f"--format {form} needs the Python package onnx", hint="Install it: pip install 'harness[import]'"
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


def nodes_of_layers(model: ModelProto, row: Row, file: Path) -> Sequence[tuple[NodeProto, LayerResult]]:
    """The nodes that compute the layers of a cell, in the order of the file, such as those of layer 4:
    `convolutional_4/Conv:Conv` and `convolutional_4/LeakyRelu:LeakyRelu`. Nodes that make weights are not
    among them. Raises ConfigurationError if no node is one of the layers.
    """
    layers = {f"{layer.type}_{layer.index}": layer for layer in row.layers}
    found = [
        (node, layers[name])
        for node in model.graph.node
        if (name := node.name.partition(":")[0].partition("/")[0]) in layers
        and "/weights" not in node.name
        and "/bias" not in node.name
    ]
    if not found:
        raise ConfigurationError(
            f"{file}: no node has the name of a layer of {row.name}",
            hint="Name the file that `harness export --format onnx` has written for this model.",
        )
    return found
