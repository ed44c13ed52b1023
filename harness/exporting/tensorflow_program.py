"""Makes a SavedModel or a TensorFlow Lite file of the ONNX export in fp32.

A program of its own, which imports nothing of harness: TensorFlow takes seconds, memory, and prints much.

    tensorflow_program.py KIND MODEL FOLDER [PICTURES [FLOAT]]

KIND is saved-model, float, or a quantisation as policies name it (TFLITE in harness/config/policy.py).
PICTURES, .npy: float32 [n, channels, height, width], are those on which the converter records ranges.
FLOAT, .json: the names of the graph's operators that stay in float beside others in int8.
It writes FOLDER/model, a folder, whose assets.extra/signature.json names the graph's tensors, or
FOLDER/model.tflite. If it cannot express an operator, it writes FOLDER/refused.json with `message` and
`node`, the operator's name. Everything else that goes wrong ends it with an exception.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

sys.path.append(str(Path(__file__).parent))  # last: modules of this folder hide no others
from tensorflow_operators import OPERATORS, Operator, RefusedError

_IN_FLOAT = "in_float"  # the scope of operators; TensorFlow numbers further ones
_SCOPED = re.compile(rf"(^|;){_IN_FLOAT}(_\d+)?/")


def main(
    kind: str, model: Path, folder: Path, pictures: Path | None = None, in_float: Path | None = None
) -> int:
    """Returns the exit status."""
    graph = onnx.load(str(model)).graph
    left = frozenset(json.loads(in_float.read_text(encoding="utf-8"))) if in_float else frozenset()
    try:
        function = _function(graph, left).get_concrete_function()
    except RefusedError as refusal:
        (folder / "refused.json").write_text(json.dumps(refusal.reason), encoding="utf-8")
        return 1
    if kind == "saved-model":
        module = tf.Module()
        module.function = function
        tf.saved_model.save(module, str(folder / "model"), signatures={"serving_default": function})
        extra = folder / "model" / "assets.extra"  # TensorFlow leaves what is in it to others
        extra.mkdir()
        (extra / "signature.json").write_text(json.dumps(_signature(folder / "model")), encoding="utf-8")
    else:
        (folder / "model.tflite").write_bytes(_lite(kind, graph, function, pictures, left))
    return 0


def _signature(model: Path) -> dict[str, list[dict[str, Any]]]:
    """The tensors of the graph by the names of inputs and outputs, for programs without protocol buffers."""
    from tensorflow.core.protobuf import saved_model_pb2

    document = saved_model_pb2.SavedModel.FromString((model / "saved_model.pb").read_bytes())
    signature = document.meta_graphs[0].signature_def["serving_default"]
    return {
        key: [
            {"name": name, "tensor": info.name, "shape": [size.size for size in info.tensor_shape.dim]}
            for name, info in sorted(tensors.items())
        ]
        for key, tensors in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }


def _function(graph: Any, in_float: Collection[str] = ()) -> Any:
    """Of tensors by name, all of them float32; maps have their channels last. The operators that are to stay
    in float have a scope of that name."""
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    specs = [tf.TensorSpec(_last(_sizes(each)), tf.float32, name=each.name) for each in graph.input]

    def computed(*given: Any) -> dict[str, Any]:
        tensors: dict[str, Any] = dict(zip((each.name for each in graph.input), given, strict=True))
        for node in graph.node:
            operator = Operator(node=node, tensors=tensors, constants=constants)
            with tf.name_scope(_IN_FLOAT) if node.name in in_float else nullcontext():
                tensors[node.output[0]] = _applied(operator)
        return {each.name: tensors[each.name] for each in graph.output}

    return tf.function(computed, input_signature=specs)


def _applied(operator: Operator) -> Any:
    node = operator.node
    if node.op_type not in OPERATORS:
        raise RefusedError(node, f"needs ONNX's {node.op_type}, which is not written as TensorFlow")
    try:
        return OPERATORS[node.op_type](operator)
    except (ValueError, tf.errors.OpError) as error:
        raise RefusedError(
            node, f"cannot be expressed in TensorFlow: {' '.join(str(error).split())[:200]}"
        ) from None


def _lite(
    kind: str, graph: Any, function: Any, pictures: Path | None, in_float: Collection[str] = ()
) -> bytes:
    """The content of a TensorFlow Lite file, whose inputs and outputs have the names of the graph's."""
    from tensorflow.lite.tools import flatbuffer_utils

    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    specification = converter.target_spec
    match kind:
        case "float16":
            specification.supported_types = [tf.float16]
        case "full-integer":
            specification.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        case "16x8":
            wide = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            specification.supported_ops = [wide, tf.lite.OpsSet.TFLITE_BUILTINS]
    if pictures is not None:
        images = np.load(pictures, mmap_mode="r", allow_pickle=False)
        converter.representative_dataset = lambda: ([_picture(image)] for image in images)
    written = _selective(converter, graph, function, in_float) if in_float else converter.convert()
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(written))
    main_graph = model.subgraphs[0]
    # TensorFlow sorts the keys of dictionaries.
    names = sorted(each.name for each in graph.output)
    for place, name in zip(main_graph.outputs, names, strict=True):
        main_graph.tensors[place].name = name.encode()
    for place, given in zip(main_graph.inputs, graph.input, strict=True):
        main_graph.tensors[place].name = given.name.encode()
    order = [names.index(each.name) for each in graph.output]
    main_graph.outputs = np.array([main_graph.outputs[place] for place in order], np.int32)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _selective(converter: Any, graph: Any, function: Any, in_float: Collection[str]) -> bytes:
    """Quantised but for some operators, as TensorFlow's guide to its quantisation debugger does it."""
    debugging = tf.lite.experimental
    options = debugging.QuantizationDebugOptions(denylisted_nodes=_scoped(graph, function, in_float))
    pictures = converter.representative_dataset
    debugger = debugging.QuantizationDebugger(
        converter=converter, debug_dataset=pictures, debug_options=options
    )
    return bytes(debugger.get_nondebug_quantized_model())


def _scoped(graph: Any, function: Any, in_float: Collection[str]) -> list[str]:
    """The outputs of operators in the scope, as the converter names them. Those of the graph have lost it."""
    from tensorflow.lite.tools import flatbuffer_utils

    written = tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()
    main_graph = flatbuffer_utils.convert_bytearray_to_object(bytearray(written)).subgraphs[0]
    left = {node.output[0] for node in graph.node if node.name in in_float}
    ends = zip(main_graph.outputs, sorted(each.name for each in graph.output), strict=True)
    places = {int(place) for place, name in ends if name in left}
    names = [tensor.name.decode() for tensor in main_graph.tensors]
    return [
        names[place]
        for operator in main_graph.operators
        for place in operator.outputs
        if place in places or _SCOPED.search(names[place])
    ]


def _picture(image: Any) -> Any:
    """A batch of one, with its channels last."""
    return np.ascontiguousarray(image.transpose(1, 2, 0)[None])


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(size.dim_value for size in value.type.tensor_type.shape.dim)


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape


if __name__ == "__main__":
    sys.tracebacklimit = 0  # the reason is in the exception, not in the lines of TensorFlow
    sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:])))
