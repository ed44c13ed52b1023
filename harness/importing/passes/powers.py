"""Replaces powers and scaled functions by operators that the cfg has."""

from __future__ import annotations

import numpy as np

from harness.importing.graph import Attribute, Graph, Node
from harness.importing.passes.activations import operand_and_number

_LARGEST = 8  # as products
_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


def expand_functions(graph: Graph) -> None:
    """Powers with a constant exponent become products, roots and quotients; a Selu becomes a scaled Elu.

    Raises ConfigurationError for other exponents.
    """
    for node in graph.ordered():
        if node.op == "Pow":
            _replace(graph, node, _power(graph, node))
        elif node.op == "Selu":
            emitted = _emit(graph, node, "Elu", node.inputs[0], alpha=_SELU_ALPHA)
            _replace(graph, node, _emit(graph, node, "Mul", emitted, _number(graph, _SELU_GAMMA)))


def _power(graph: Graph, node: Node) -> str:
    found = operand_and_number(graph, node)
    if found is None or found[0] != node.inputs[0]:
        raise node.source.unsupported("powers whose exponent is not one constant are not supported")
    name, exponent = found
    size = abs(exponent)
    if size == 0.5:
        power = _emit(graph, node, "Sqrt", name)
    elif 1 <= size <= _LARGEST and size == int(size):
        power = name
        for _ in range(int(size) - 1):
            power = _emit(graph, node, "Mul", power, name)
    else:
        raise node.source.unsupported(f"powers of {exponent:g} are not supported")
    return _emit(graph, node, "Div", _number(graph, 1.0), power) if exponent < 0 else power


def _number(graph: Graph, value: float) -> str:
    return graph.constant(np.array(value, np.float32), name="scalar")


def _emit(graph: Graph, node: Node, op: str, *inputs: str, **attributes: Attribute) -> str:
    return graph.emit(op, inputs, attributes, source=node.source)


def _replace(graph: Graph, node: Node, name: str) -> None:
    if graph.quantization(name) is None:
        graph.annotate(name, graph.quantization(node.output))
    graph.replace(node.output, name)
    graph.remove(node)
