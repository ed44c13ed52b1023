"""A quantised copy of a float ONNX model: pairs of QuantizeLinear and DequantizeLinear, as quantisers write.

Its weights are the model's in steps of their own range; its activations have made-up scales, so that its
outputs mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = npt.NDArray[Any]
_STEP = 0.05  # of all activations


def qdq_copy(content: bytes) -> bytes:
    """Of the model in a file's content: its convolutions read int8 weights and uint8 images."""
    from onnx import ModelProto, helper, numpy_helper

    model = ModelProto.FromString(content)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    added: dict[str, Array] = {"step": np.array(_STEP, np.float32), "zero": np.array(128, np.uint8)}
    nodes: list[NodeProto] = []
    quantised: set[str] = set()
    for node in model.graph.node:
        if node.op_type == "Conv" and node.input[1] in stored:
            image, name = node.input[0], node.input[1]
            weights = numpy_helper.to_array(stored[name])
            scales = np.abs(weights.reshape(len(weights), -1)).max(axis=1).astype(np.float32) / 127 + 1e-9
            steps = np.rint(weights / scales.reshape(-1, 1, 1, 1)).astype(np.int8)
            added |= {f"{name}_q": steps, f"{name}_s": scales, f"{name}_z": np.zeros(len(weights), np.int8)}
            inputs = [f"{name}_q", f"{name}_s", f"{name}_z"]
            nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_d"], axis=0))
            if image not in quantised:
                quantised.add(image)
                nodes.append(helper.make_node("QuantizeLinear", [image, "step", "zero"], [f"{image}_q"]))
                inputs = [f"{image}_q", "step", "zero"]
                nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{image}_d"]))
            node.input[0], node.input[1] = f"{image}_d", f"{name}_d"
        nodes.append(node)
    return _assembled(model, nodes, added)


def _assembled(model: ModelProto, nodes: list[NodeProto], added: dict[str, Array]) -> bytes:
    from onnx import ModelProto, numpy_helper

    found = ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del found.graph.initializer[:]
    found.graph.initializer.extend(kept)
    found.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in added.items())
    for opset in found.opset_import:
        opset.version = max(opset.version, 13)  # the first one with scales for each channel
    return bytes(found.SerializeToString())
