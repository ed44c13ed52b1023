"""Post-processing of a TensorFlow Lite model: it is not part of the graph, but described."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from harness.importing.graph import Array, Cut, Graph
from harness.importing.tflite_file import FlatModel, FlatOperator
from harness.importing.tflite_operator import looked_up


def cut_of(graph: Graph, model: FlatModel, operator: FlatOperator, values: Mapping[int, str]) -> Cut:
    """Describes an operator that the graph ends before, and makes what it reads the graph's outputs."""
    inputs: list[str] = []
    constants: dict[str, Array] = {}
    for index in operator.inputs:
        if index < 0:
            continue
        name, tensor = model.tensors[index].name, looked_up(operator, values, index)
        value = graph.value(tensor)
        if value is not None:
            constants[name] = value
            continue
        inputs.append(name)
        add_output(graph, name, tensor)
    options = dict(operator.options) | _flexible(operator.custom_options)
    name = model.tensors[operator.outputs[0]].name if operator.outputs else operator.name
    return Cut(
        operator=operator.name, name=name, inputs=tuple(inputs), attributes=options, constants=constants
    )


def add_output(graph: Graph, name: str, tensor: str) -> None:
    """Makes a tensor one of the graph's outputs, once."""
    if all(known != tensor for _, known in graph.outputs):
        graph.outputs.append((name, tensor))


def _flexible(data: bytes) -> dict[str, object]:
    """The options of a custom operator; none if they are not a flexbuffer's map of numbers and words."""
    from flatbuffers import flexbuffers

    if not data:
        return {}
    try:
        found = flexbuffers.Loads(data)
    except (struct.error, IndexError, ValueError, TypeError, OverflowError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): value for key, value in found.items() if isinstance(value, int | float | str)}
