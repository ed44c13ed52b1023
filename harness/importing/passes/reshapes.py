"""Moves transpositions past reshapes that only split or only join axes.

Behind one that splits axes, and before one that joins them: there they meet others. A channel shuffle of a
channels-last model becomes one transposition of the channels-first image, as other models have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.importing.graph import Graph, Node


def behind_split(graph: Graph, reshape: Node) -> list[str]:
    """Transpose, Reshape becomes Reshape, Transpose; the tensors to look at again, none without a change."""
    turn = graph.producer.get(reshape.inputs[0])
    if turn is None or turn.op != "Transpose":
        return []
    order = turn.integers("perm")
    after = graph.shape(reshape.output)
    groups = split_axes(graph.shape(turn.output), after)
    if groups is None or len(after) == len(order):
        return []
    by_axis = [groups[order.index(axis)] for axis in range(len(order))]
    starts: list[int] = []
    sizes: list[int] = []
    for group in by_axis:
        starts.append(len(sizes))
        sizes += [after[axis] for axis in group]
    moved = tuple(starts[axis] + place for axis in order for place in range(len(by_axis[axis])))
    return _both(graph, reshape, turn.inputs[0], ("Reshape", tuple(sizes)), ("Transpose", moved))


def before_join(graph: Graph, turn: Node) -> list[str]:
    """Reshape, Transpose becomes Transpose, Reshape."""
    reshape = graph.producer.get(turn.inputs[0])
    if reshape is None or reshape.op != "Reshape" or graph.only_user(reshape.output) is not turn:
        return []
    before = graph.shape(reshape.inputs[0])
    groups = split_axes(graph.shape(reshape.output), before)
    order = turn.integers("perm")
    if groups is None or len(before) == len(order):
        return []
    moved = tuple(place for axis in order for place in groups[axis])
    return _both(graph, turn, reshape.inputs[0], ("Transpose", moved), ("Reshape", graph.shape(turn.output)))


def split_axes(before: Sequence[int], after: Sequence[int]) -> list[list[int]] | None:
    """The axes that each axis is split into; None if the reshape does more than that."""
    groups: list[list[int]] = []
    place = 0
    for size in before:
        group: list[int] = []
        product = 1
        while place < len(after) and (not group or product < size):
            product *= after[place]
            group.append(place)
            place += 1
        if not group or product != size:
            return None
        groups.append(group)
    rest = range(place, len(after))
    if any(after[axis] != 1 for axis in rest) or not groups:
        return None
    groups[-1] += rest
    return groups


def _both(
    graph: Graph,
    last: Node,
    name: str,
    first: tuple[str, tuple[int, ...]],
    second: tuple[str, tuple[int, ...]],
) -> list[str]:
    """Replaces the second of two nodes by two others that read `name`."""
    grid = graph.quantization(last.output)
    made = name
    for op, numbers in (first, second):
        key = "perm" if op == "Transpose" else "shape"
        made = graph.emit(op, [made], {key: numbers}, source=last.source, quantization=grid)
    graph.replace(last.output, made)
    graph.remove(last)
    del graph.tensors[last.output]
    if made in graph.producer:
        made = graph.rename(made, last.output)
    return [name, graph.producer[made].inputs[0], made] if made in graph.producer else [name]
