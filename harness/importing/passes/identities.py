"""Removes operations that change no number, and joins grids with the tensors that lie on them."""

from __future__ import annotations

from harness.importing.graph import Graph, Node


def remove_identities(graph: Graph) -> None:
    """Quantisation becomes the grid of the tensor before it where nothing else reads that tensor.

    What remains, a change from one grid to another, becomes a Requantize.
    """
    for node in graph.ordered():
        if node.op == "Identity":
            _remove(graph, node)


def remove_repeated(graph: Graph) -> None:
    """Operations that compute the same from the same become one."""
    found: dict[object, Node] = {}
    for node in graph.ordered():
        grid = graph.quantization(node.output)
        key = (node.op, tuple(node.inputs), tuple(sorted(node.attributes.items())), grid)
        first = found.setdefault(key, node)
        if first is not node:
            graph.replace(node.output, first.output)
            graph.remove(node)


def _remove(graph: Graph, node: Node) -> None:
    before, after = node.inputs[0], node.output
    old, new = graph.quantization(before), graph.quantization(after)
    users = graph.users(before)
    if new is None or old == new:
        pass
    elif old is None and not graph.is_output(before) and all(_same(graph, user, node) for user in users):
        graph.annotate(before, new)
    else:
        node.op = "Requantize"
        return
    maker = graph.producer.get(before)
    if maker is not None and graph.only_user(before) is node:
        graph.annotate(after, new or old)
        graph.take_over(maker, node)
        return
    graph.replace(after, before)
    graph.remove(node)


def _same(graph: Graph, user: Node, node: Node) -> bool:
    """Whether both nodes bring a tensor to the same grid."""
    return user.op == "Identity" and graph.quantization(user.output) == graph.quantization(node.output)
