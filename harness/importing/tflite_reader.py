"""Reads a TensorFlow Lite model into a neutral graph.

Images are channels-last in the file: operators on images are written with a transposition before and behind
them, which `passes.transposes` removes.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import ConfigurationError
from harness.importing.builder import Builder
from harness.importing.graph import Graph, Shape, Source, Tensor
from harness.importing.input_shape import IMAGE_CHANNELS, checked_input_shape, picture_among
from harness.importing.quantization import Quantization
from harness.importing.tflite_cut import add_output, cut_of
from harness.importing.tflite_file import FlatModel, FlatOperator, FlatTensor
from harness.importing.tflite_metadata import normalization_of
from harness.importing.tflite_operator import TO_LAST, Operator, looked_up, real_numbers
from harness.importing.tflite_operators import OPERATORS
from harness.importing.tflite_space_to_batch import dilated_convolutions

_CUT = frozenset(
    ["TFLite_Detection_PostProcess", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "ARG_MAX", "TOPK_V2"]
)
_QUANTISED = ("int8", "uint8", "int16")


def graph_of(model: FlatModel, file: str, input_shape: Shape | None = None) -> Graph:
    """The graph of a decoded file. Raises ConfigurationError if it cannot be imported."""
    graph = Graph(normalization=normalization_of(model.metadata))
    values: dict[int, str] = {}
    for index, tensor in enumerate(model.tensors):
        if tensor.data is not None:
            values[index] = _constant(graph, tensor)
    if not model.inputs:
        raise ConfigurationError(f"{file}: the model has no input")
    picture = picture_among([model.tensors[index].shape for index in model.inputs])
    for place, index in enumerate(model.inputs):
        tensor = model.tensors[index]
        declared, values[index] = _input(graph, tensor, input_shape if place == picture else None)
        if place != picture:
            graph.more_inputs.append(declared)
            continue
        graph.input = declared
        if tensor.type != "float32" and quantization_of(tensor) is None:
            graph.normalization = ((0.0,), (1.0,))  # the bytes of the picture
    dilated, skipped = dilated_convolutions(model)
    for place, operator in enumerate(model.operators):
        if place in skipped:
            values[operator.outputs[0]] = looked_up(operator, values, operator.inputs[0])
            continue
        _translate(graph, model, operator, values, dilated.get(place))
    for index in model.outputs:
        if index in values:
            graph.outputs.append((model.tensors[index].name, values[index]))
    cut = _cut(graph, model, values)
    for index in model.outputs:
        if index not in values and index not in cut:
            raise ConfigurationError(f"{file}: no operator computes the output {model.tensors[index].name!r}")
    return graph


def _constant(graph: Graph, tensor: FlatTensor) -> str:
    assert tensor.data is not None
    grid = quantization_of(tensor)
    value = real_numbers(tensor)
    return graph.constant(value, name=tensor.name, quantization=grid, stored=True)


def quantization_of(tensor: FlatTensor) -> Quantization | None:
    """The grid of an int8, uint8 or int16 tensor."""
    if not tensor.scales or tensor.type not in _QUANTISED or (tensor.data is None and not all(tensor.scales)):
        return None
    shift = 128 if tensor.type == "uint8" else 0
    return Quantization(
        scales=tensor.scales,
        zero_points=tuple(zero - shift for zero in tensor.zero_points),
        axis=tensor.axis,
        bits=16 if tensor.type == "int16" else 8,
    )


def _input(graph: Graph, tensor: FlatTensor, wanted: Shape | None) -> tuple[str, str]:
    """Declares an input of the network, channels first, and returns it and the one that the file has."""
    source = Source(operator="the input", name=tensor.name)
    shape = tensor.shape
    last = len(shape) == 4 and (shape[3] in IMAGE_CHANNELS or shape[1] not in IMAGE_CHANNELS)
    first = (shape[0], shape[3], shape[1], shape[2]) if last else shape
    first = checked_input_shape(first, wanted, source)
    name = graph.fresh(tensor.name or "input")
    declared = graph.add_tensor(Tensor(name=name, shape=first, quantization=quantization_of(tensor)))
    if not last:
        return declared, declared
    found = Builder(graph=graph, source=source).transpose(declared, TO_LAST)
    graph.annotate(found, quantization_of(tensor))
    return declared, found


def _translate(
    graph: Graph,
    model: FlatModel,
    operator: FlatOperator,
    values: dict[int, str],
    dilation: Mapping[str, tuple[int, ...]] | None,
) -> None:
    name = model.tensors[operator.outputs[0]].name if operator.outputs else ""
    source = Source(operator=operator.name, name=name)
    if operator.name in _CUT or any(index >= 0 and index not in values for index in operator.inputs):
        return  # a part after the network; `_cut` checks that it is one
    translate = None if operator.custom else OPERATORS.get(operator.name)
    if translate is None:
        raise source.unsupported("this operator is not supported")
    before = len(graph.nodes)
    with source.checked():
        found = translate(
            Operator(
                model=model,
                operator=operator,
                values=values,
                builder=Builder(graph=graph, source=source),
                dilation=dilation,
            )
        )
    made = graph.newest(len(graph.nodes) - before)
    for index, tensor in zip(operator.outputs, found, strict=False):
        flat = model.tensors[index]
        if tensor not in made:
            values[index] = tensor
            continue
        node = graph.producer[tensor]
        if node.op == "Transpose" and node.inputs[0] in made and node.inputs[0] in graph.producer:
            graph.rename(node.inputs[0], flat.name)  # of the operation before its result is turned
        values[index] = graph.rename(tensor, flat.name)
        grid = quantization_of(flat)
        if grid is not None:
            graph.annotate(values[index], grid)


def _cut(graph: Graph, model: FlatModel, values: Mapping[int, str]) -> frozenset[int]:
    """Ends the graph before post-processing: what that reads becomes outputs. Returns what it computes."""
    missing: set[int] = set()
    for operator in model.operators:
        if all(index in values for index in operator.outputs):
            continue
        unknown = [index for index in operator.inputs if index >= 0 and index not in values]
        if operator.name in _CUT and not any(index in missing for index in unknown):
            graph.cut(cut_of(graph, model, operator, values))
        elif not any(index in missing for index in unknown):
            if not unknown:
                raise Source(operator=operator.name, name="").unsupported("it has too many outputs")
            raise Source(operator=operator.name, name=model.tensors[unknown[0]].name).unsupported(
                "it reads a tensor that no operator before it computes"
            )
        missing.update(operator.outputs)
        for index in operator.inputs:
            if index in values and graph.value(values[index]) is None:
                add_output(graph, model.tensors[index].name, values[index])
    return frozenset(missing)
