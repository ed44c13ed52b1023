"""Gives tensors the grid of those that hold the same numbers."""

from __future__ import annotations

from harness.importing.graph import Graph, Node

_SAME = ("Transpose", "Reshape")
_PART = (*_SAME, "Slice", "MaxPool")


def spread_grids(graph: Graph) -> None:
    """A tensor that is moved, cut, or reduced to largest values lies on the same grid as before."""
    nodes = graph.ordered()
    for node in reversed(nodes):
        name = node.inputs[0]
        if node.op in _SAME and graph.quantization(name) is None:
            graph.annotate(name, graph.quantization(node.output))
    for node in nodes:
        if _keeps(node) and graph.quantization(node.output) is None:
            graph.annotate(node.output, graph.quantization(node.inputs[0]))


def _keeps(node: Node) -> bool:
    return node.op in _PART or (node.op == "Resize" and node.text("mode") == "nearest")
