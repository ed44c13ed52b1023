"""ONNX files for other runtimes: what they have, and copies with further outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.runtimes.base import ModelFile

_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def with_outputs(model: ModelFile, folder: Path) -> Path:
    """The model's file, or one in `folder` that declares tensors before the post-processing as outputs, too:
    most runtimes compute no others."""
    import onnx

    graph = onnx.load(str(model.path), load_external_data=False).graph
    missing = set(model.outputs.values()) - {output.name for output in graph.output}
    if not missing:
        return model.path
    extended = onnx.load(str(model.path))
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(missing))
    file = folder / "model.onnx"
    file.write_bytes(extended.SerializeToString())
    return file


def operators_of(path: Path) -> frozenset[str]:
    """The names of a model's operators."""
    import onnx

    return frozenset(node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node)


def is_half(path: Path) -> bool:
    """Whether all weights of convolutions and matrix products are float16."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    found = {
        types[name]
        for node in graph.node
        if node.op_type in _WEIGHTED
        for name in node.input[1:2]
        if name in types
    }
    return found == {onnx.TensorProto.FLOAT16}
