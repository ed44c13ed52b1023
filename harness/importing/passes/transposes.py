"""Removes transpositions: those of channels-last models meet their inverses.

Each transposition is moved behind the operation that reads it, where that does not make more of them. Two
that meet become one, and one that moves no numbers becomes a Reshape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.importing.graph import Attribute, Graph, Node
from harness.importing.passes.reshapes import before_join, behind_split
from harness.importing.shapes import BINARY, REDUCTIONS, UNARY

_MOST_STEPS = 200  # for each node
_MOST_READERS = 256  # of a tensor whose readers are looked at again after a change
_MOVABLE = UNARY | BINARY | REDUCTIONS | {"Concat", "LayerNorm", "Slice", "Pad", "Softmax"}


def move_transposes(graph: Graph) -> None:
    """Moves and joins transpositions and reshapes until nothing changes."""
    pending = dict.fromkeys(reversed(graph.ordered()))
    steps = _MOST_STEPS * (len(graph.nodes) + 1)
    while pending and steps:
        steps -= 1
        node, _ = pending.popitem()
        if node not in graph.nodes:
            continue
        if not graph.users(node.output) and not graph.is_output(node.output):
            before = [graph.producer[name] for name in node.inputs if name in graph.producer]
            graph.remove(node)
            pending.update(dict.fromkeys(before))
            continue
        changed = _simplified(graph, node) if node.op in ("Transpose", "Reshape") else _moved(graph, node)
        for name in changed:
            around = graph.users(name)
            if len(around) > _MOST_READERS:
                around = []  # each of them would have all of them looked at again
            if name in graph.producer:
                around.append(graph.producer[name])
            pending.update(dict.fromkeys(around))


def order_of(node: Node) -> tuple[int, ...]:
    return node.integers("perm")


def moves_nothing(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a transposition only moves axes of size 1."""
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept)


def _simplified(graph: Graph, node: Node) -> list[str]:
    """Joins a Transpose or Reshape with the one before it; the tensors to look at again."""
    before = node.inputs[0]
    shape = graph.shape(before)
    turned = node.op == "Transpose" and moves_nothing(order_of(node), shape)
    if turned:
        node.op, node.attributes = "Reshape", {"shape": graph.shape(node.output)}
    if node.op == "Reshape" and graph.shape(node.output) == shape:
        return _dropped(graph, node, before)
    first = graph.producer.get(before)
    if first is None or first.op != node.op:
        if turned:
            return [node.output]
        return behind_split(graph, node) if node.op == "Reshape" else before_join(graph, node)
    if node.op == "Transpose":
        inner = order_of(first)
        node.attributes["perm"] = tuple(inner[axis] for axis in order_of(node))
    graph.set_inputs(node, [first.inputs[0]])
    return [before, node.output]


def _dropped(graph: Graph, node: Node, before: str) -> list[str]:
    if graph.quantization(before) is None and graph.quantization(node.output) is not None:
        graph.annotate(before, graph.quantization(node.output))
    graph.replace(node.output, before)
    graph.remove(node)
    return [before]


def _moved(graph: Graph, node: Node) -> list[str]:
    """Moves the transpositions before an operation behind it, if they do not become more."""
    if node.op not in _MOVABLE:
        return []
    before = graph.producer.get(node.inputs[0])
    if before is not None and before.op == "Reshape" and node.op in UNARY and len(node.inputs) == 1:
        return _behind(graph, node, before.inputs, "Reshape", {"shape": graph.shape(node.output)})
    turned = [_transpose_before(graph, name) for name in node.inputs]
    orders = {order_of(before) for before in turned if before is not None}
    rank = len(graph.shape(node.output))
    if len(orders) != 1 or not _worth_it(graph, node, turned, order := orders.pop()):
        return []
    if len(order) != rank or any(len(graph.shape(name)) > rank for name in node.inputs):
        return []
    if node.op == "PRelu" and graph.value(node.inputs[1]) is None:
        return []
    inverse = tuple(order.index(axis) for axis in range(rank))
    inputs = [
        before.inputs[0] if before is not None else _inverted(graph, node, name, inverse)
        for before, name in zip(turned, node.inputs, strict=True)
    ]
    node.attributes.update(_moved_attributes(node, order))
    return _behind(graph, node, inputs, "Transpose", {"perm": order})


def _behind(
    graph: Graph, node: Node, inputs: Sequence[str], op: str, attributes: Mapping[str, Attribute]
) -> list[str]:
    """The node keeps its name and reads other inputs; a new operation makes what its readers expect."""
    readers = graph.users(node.output)
    graph.set_inputs(node, inputs)
    graph.reshape_output(node)
    grid = graph.quantization(node.output)
    back = graph.emit(op, [node.output], attributes, source=node.source, quantization=grid)
    for reader in readers:
        graph.set_inputs(reader, [back if name == node.output else name for name in reader.inputs])
    graph.outputs = [(name, back if tensor == node.output else tensor) for name, tensor in graph.outputs]
    return [*inputs, node.output, back]


def _transpose_before(graph: Graph, name: str) -> Node | None:
    node = graph.producer.get(name)
    return node if node is not None and node.op == "Transpose" else None


def _worth_it(graph: Graph, node: Node, turned: Sequence[Node | None], order: tuple[int, ...]) -> bool:
    """Whether the transpositions before an operation are at least as many as after the move."""
    rank = len(order)
    before = len({found for found in turned if found is not None})
    after = 1
    for name, found in zip(node.inputs, turned, strict=True):
        shape = (1,) * (rank - len(graph.shape(name))) + graph.shape(name)
        if found is None and graph.value(name) is None and not moves_nothing(order, shape):
            after += 1
    return after <= before


def _inverted(graph: Graph, node: Node, name: str, inverse: tuple[int, ...]) -> str:
    """Another input of an operation whose first ones were transposed."""
    shape = graph.shape(name)
    grid = graph.quantization(name)
    if len(shape) < len(inverse):
        longer = (1,) * (len(inverse) - len(shape)) + shape
        name = graph.emit("Reshape", [name], {"shape": longer}, source=node.source, quantization=grid)
    return graph.emit("Transpose", [name], {"perm": inverse}, source=node.source, quantization=grid)


def _moved_attributes(node: Node, order: tuple[int, ...]) -> dict[str, int | tuple[int, ...]]:
    """The attributes that name axes: axis i after the transposition is axis order[i] before it."""
    found: dict[str, int | tuple[int, ...]] = {}
    if "axis" in node.attributes:
        found["axis"] = order[node.integer("axis")]
    if "axes" in node.attributes:
        found["axes"] = tuple(sorted(order[axis] for axis in node.integers("axes")))
    if node.op == "Pad":
        pads, rank = node.integers("pads"), len(order)
        moved = [0] * (2 * rank)
        for axis in range(rank):
            moved[order[axis]], moved[order[axis] + rank] = pads[axis], pads[axis + rank]
        found["pads"] = tuple(moved)
    return found
