"""ONNX files for other runtimes: what is in them, and copies with further outputs or in fp32."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.runtimes.base import ModelFile

_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_QUANTISING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv"})


def with_outputs(model: ModelFile, folder: Path) -> ModelFile:
    """The model, or one in `folder` that declares tensors before the post-processing as outputs, too: most
    runtimes compute no others."""
    import onnx

    graph = onnx.load(str(model.path), load_external_data=False).graph
    missing = set(model.outputs.values()) - {output.name for output in graph.output}
    if not missing:
        return model
    extended = onnx.load(str(model.path))
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(missing))
    file = folder / "model.onnx"
    file.write_bytes(extended.SerializeToString())
    return replace(model, path=file)


def output_names(path: Path) -> list[str]:
    """The names of a model's outputs."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    return [output.name for output in graph.output]


def refuse_quantised(runtime: str, path: Path, but: Collection[str] = ()) -> None:
    """Raises ConfigurationError for an int8 model, unless it has no such operators but those of `but`. MNN's
    converter makes a model with empty outputs of it."""
    import onnx

    operators = {node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node}
    if found := operators & (_QUANTISING - {*but}):
        raise ConfigurationError(
            f"{runtime}: {path.name} has {min(found)}, which its converter does not read",
            hint=f"Use a policy without int8{', or int8 with quantize=0' if but else ''}.",
        )


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


def in_single(path: Path, folder: Path) -> Path:
    """A copy of a model in `folder` with float32 in place of float16: constants keep their values."""
    import onnx

    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    model = onnx.load(str(path))
    graph = model.graph
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    tensors = [attribute.t for attribute in attributes if attribute.type == onnx.AttributeProto.TENSOR]
    for tensor in (*graph.initializer, *tensors):
        if tensor.data_type == half:
            values = onnx.numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == half:  # of Cast
            attribute.i = single
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == half:
            value.type.tensor_type.elem_type = single
    copy = folder / path.name
    copy.write_bytes(model.SerializeToString())
    return copy
