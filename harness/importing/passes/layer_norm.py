"""Recognises layer normalisation that a model spells out, as exports before ONNX's opset 17 do."""

from __future__ import annotations

from harness.importing.graph import Graph, Node
from harness.importing.passes.activations import operand_and_number


def recognise_layer_norms(graph: Graph) -> None:
    """(x - mean) / sqrt(mean of the squares + epsilon) along the same axes becomes one LayerNorm. Powers must
    be products already."""
    for node in graph.ordered():
        if node.op != "Div":
            continue
        centred = _centred(graph, node.inputs[0])
        below = _variance_and_epsilon(graph, node.inputs[1])
        if centred is None or below is None or _variance_of(graph, below[0]) != centred:
            continue
        parts = (*node.inputs, below[0])
        if any(graph.quantization(part) is not None for part in parts):
            continue  # the rounding of the parts is part of a quantised model's accuracy
        x, axes = centred
        graph.set_inputs(node, [x])
        node.op, node.attributes = "LayerNorm", {"axes": axes, "epsilon": below[1]}
    graph.prune()


def _made_by(graph: Graph, name: str, op: str) -> Node | None:
    node = graph.producer.get(name)
    return node if node is not None and node.op == op else None


def _centred(graph: Graph, name: str) -> tuple[str, tuple[int, ...]] | None:
    """The x and the axes of x - mean(x)."""
    node = _made_by(graph, name, "Sub")
    mean = _made_by(graph, node.inputs[1], "ReduceMean") if node else None
    if node is None or mean is None or mean.inputs[0] != node.inputs[0]:
        return None
    axes = mean.integers("axes")
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(graph.shape(mean.inputs[0])))
    return (node.inputs[0], axes) if graph.shape(mean.output) == kept else None


def _variance_of(graph: Graph, name: str) -> tuple[str, tuple[int, ...]] | None:
    """The x and the axes of the mean of the squares of x - mean(x)."""
    mean = _made_by(graph, name, "ReduceMean")
    square = _made_by(graph, mean.inputs[0], "Mul") if mean else None
    if mean is None or square is None:
        return None
    first, second = (_centred(graph, part) for part in square.inputs)
    return first if first == second and first is not None and first[1] == mean.integers("axes") else None


def _variance_and_epsilon(graph: Graph, name: str) -> tuple[str, float] | None:
    """The y and the number of sqrt(y + number), which is not below 0."""
    root = _made_by(graph, name, "Sqrt")
    total = _made_by(graph, root.inputs[0], "Add") if root else None
    found = operand_and_number(graph, total) if total else None
    return found if found and found[1] >= 0 else None
