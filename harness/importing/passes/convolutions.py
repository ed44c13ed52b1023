"""Folds into convolutions and matrices what stands beside them: paddings, scales, biases, transpositions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from harness.importing.graph import Array, Attribute, Graph, Node
from harness.importing.quantization import Quantization
from harness.importing.shapes import pools_padding

_WEIGHTED = ("Conv", "ConvTranspose", "Linear")


def matrices_to_convolutions(graph: Graph) -> None:
    """A product with a constant matrix becomes a Linear, and with several rows a convolution of size 1."""
    for node in graph.ordered():
        if node.op == "MatMul" and len(graph.shape(node.inputs[1])) == 2 and _constant(graph, node.inputs[1]):
            weights = graph.emit("Transpose", [node.inputs[1]], {"perm": (1, 0)}, source=node.source)
            graph.set_inputs(node, [node.inputs[0], weights])
            node.op = "Linear"
    for node in graph.ordered():
        if node in graph.nodes and node.op in ("Mul", "Add"):
            _fold_scale(graph, node)
    for node in graph.ordered():
        if node.op == "Linear" and math.prod(graph.shape(node.inputs[0])[:-1]) > 1:
            _to_convolution(graph, node)


def _to_convolution(graph: Graph, node: Node) -> None:
    name, weights, *bias = node.inputs
    shape, grid = graph.shape(name), graph.quantization(name)
    filters, inputs = graph.shape(weights)
    image = len(shape) == 4 and shape[0] == 1

    def emit(op: str, tensor: str, *more: str, **attributes: Attribute) -> str:
        return graph.emit(op, [tensor, *more], attributes, source=node.source, quantization=grid)

    if image:
        turned = emit("Transpose", name, perm=(0, 3, 1, 2))
    else:
        rows = emit("Reshape", name, shape=(1, math.prod(shape[:-1]), inputs))
        turned = emit("Transpose", rows, perm=(0, 2, 1))
        turned = emit("Reshape", turned, shape=(1, inputs, math.prod(shape[:-1]), 1))
    small = graph.constant(
        graph.tensors[weights].value.reshape(filters, inputs, 1, 1),  # type: ignore[union-attr]
        name=weights,
        quantization=graph.quantization(weights),
    )
    grid = graph.quantization(node.output)
    found = emit("Conv", turned, small, *bias, group=1, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0))
    if image:
        found = emit("Transpose", found, perm=(0, 2, 3, 1))
    else:
        found = emit("Reshape", found, shape=(1, filters, math.prod(shape[:-1])))
        found = emit("Transpose", found, perm=(0, 2, 1))
        found = emit("Reshape", found, shape=(*shape[:-1], filters))
    graph.replace(node.output, found)
    graph.remove(node)


def fold_into_convolutions(graph: Graph) -> None:
    """Folds constant scales and biases behind, and padding before, convolutions and matrices."""
    for node in graph.ordered():
        if node in graph.nodes and node.op in ("Sub", "Div"):
            _normalise(graph, node)
    for node in graph.ordered():
        if node not in graph.nodes:
            continue
        if node.op in ("Mul", "Add"):
            _fold_scale(graph, node)
        elif node.op in ("Conv", "MaxPool", "AveragePool"):
            _fold_pad(graph, node)
        elif node.op == "Linear":
            _fold_flatten(graph, node)
    for node in graph.ordered():
        if node in graph.nodes and node.op in ("Add", "Mul"):
            _scale_layer(graph, node)


def _constant(graph: Graph, name: str) -> bool:
    return graph.value(name) is not None


def _normalise(graph: Graph, node: Node) -> None:
    """x - c becomes x + (-c), and x / c becomes x * (1 / c)."""
    value = graph.value(node.inputs[1])
    quantised = graph.quantization(node.inputs[1]) or graph.quantization(node.output)
    if value is None or _constant(graph, node.inputs[0]) or quantised or value.dtype.kind != "f":
        return
    if node.op == "Div" and not np.all(value):
        return
    other = -value if node.op == "Sub" else 1 / value.astype(np.float64)
    made = graph.constant(np.asarray(other, np.float32), name=node.inputs[1])
    graph.set_inputs(node, [node.inputs[0], made])
    node.op = "Add" if node.op == "Sub" else "Mul"


def _split_constant(graph: Graph, node: Node) -> tuple[str, Array] | None:
    """The computed operand of a Mul or Add, and the constant one."""
    for name, other in (node.inputs, node.inputs[::-1]):
        value = graph.value(other)
        if value is not None and graph.value(name) is None and value.dtype.kind == "f":
            return name, value
    return None


def _by_channel(graph: Graph, name: str, value: Array, axis: int) -> Array | None:
    """A constant operand as a number for each channel; None if it differs along another axis, or repeats the
    tensor along this one."""
    shape = graph.shape(name)
    if value.ndim > len(shape):
        return None
    sizes = (1,) * (len(shape) - value.ndim) + value.shape
    axis %= len(shape)
    if any(size not in ((1, shape[axis]) if place == axis else (1,)) for place, size in enumerate(sizes)):
        return None
    return np.broadcast_to(value.reshape(-1), (shape[axis],)).astype(np.float64)


def _fold_scale(graph: Graph, node: Node) -> None:
    """Mul and Add with a number for each channel become part of the layer before them."""
    found = _split_constant(graph, node)
    layer = graph.producer.get(found[0]) if found else None
    if found is None or layer is None or layer.op not in _WEIGHTED or graph.only_user(found[0]) is not node:
        return
    name, value = found
    numbers = _by_channel(graph, name, value, -1 if layer.op == "Linear" else 1)
    if numbers is None or graph.quantization(name) is not None or "activation" in layer.attributes:
        return
    grid = graph.quantization(layer.inputs[1])
    if node.op == "Mul" and grid is not None:
        grid = _scaled_grid(grid, numbers) if layer.op != "ConvTranspose" else None
        if grid is None:
            return
    weights = graph.value(layer.inputs[1])
    if weights is None or weights.dtype.kind != "f":
        return
    bias = _bias(graph, layer, len(numbers))
    if bias is None:
        return
    source = layer.inputs[1]
    if node.op == "Mul":
        source = graph.constant(_scaled(layer, weights, numbers), name=source, quantization=grid)
        bias = bias * numbers
    else:
        bias = bias + numbers
    made = graph.constant(bias.astype(np.float32), name=f"{layer.output}_bias")
    graph.set_inputs(layer, [layer.inputs[0], source, made])
    graph.absorb(layer, node)


def _bias(graph: Graph, layer: Node, channels: int) -> Array | None:
    if len(layer.inputs) < 3:
        return np.zeros(channels)
    value = graph.value(layer.inputs[2])
    return None if value is None else value.reshape(-1).astype(np.float64)


def _scaled_grid(grid: Quantization, numbers: Array) -> Quantization | None:
    """The grid of weights that are multiplied by a positive number for each output."""
    if (numbers <= 0).any() or not (grid.per_tensor or len(grid.scales) == len(numbers)):
        return None
    if grid.per_tensor and np.all(numbers == numbers[0]):
        return replace(grid, scales=(grid.scales[0] * float(numbers[0]),))
    scales = np.array(grid.scales) * numbers
    zeros = np.broadcast_to(np.array(grid.zero_points), scales.shape)
    return replace(grid, scales=tuple(scales.tolist()), zero_points=tuple(zeros.tolist()), axis=0)


def _scaled(layer: Node, weights: Array, numbers: Array) -> Array:
    if layer.op == "ConvTranspose":  # [in, out / groups, y, x]
        groups = layer.integer("group", 1)
        shape = weights.shape
        split = weights.reshape(groups, shape[0] // groups, *shape[1:]).astype(np.float64)
        return np.asarray(
            (split * numbers.reshape(groups, 1, shape[1], 1, 1)).reshape(shape), dtype=np.float32
        )
    return np.asarray(weights * numbers.reshape(-1, *[1] * (weights.ndim - 1)), dtype=np.float32)


def _fold_pad(graph: Graph, node: Node) -> None:
    """Rows and columns of padding become the padding of the convolution or pool that reads them."""
    pad = graph.producer.get(node.inputs[0])
    if pad is None or pad.op != "Pad" or pad.text("mode") != "constant":
        return
    sizes = pad.integers("pads")
    if len(sizes) != 8 or any(sizes[axis] for axis in (0, 1, 4, 5)) or min(sizes) < 0:
        return
    value = pad.number("value")
    pads = node.integers("pads")
    pads = (pads[0] + sizes[2], pads[1] + sizes[3], pads[2] + sizes[6], pads[3] + sizes[7])
    if node.op == "MaxPool":
        before = graph.producer.get(pad.inputs[0])
        positive = before is not None and before.op in ("Relu", "Relu6", "Sigmoid")
        if value > -1e30 and not (value == 0 and positive):
            return
        if pools_padding(graph.shape(pad.inputs[0])[2:], {**node.attributes, "pads": pads}):
            return  # such a window has the padding's value
    elif value != 0 or (node.op == "AveragePool" and any(node.integers("pads"))):
        return
    if node.op == "AveragePool":
        node.attributes["count_padding"] = 1
    node.attributes["pads"] = pads
    node.absorbed.append(pad.source.operator)
    graph.set_inputs(node, [pad.inputs[0], *node.inputs[1:]])
    if not graph.users(pad.output) and not graph.is_output(pad.output):
        graph.remove(pad)


def _fold_flatten(graph: Graph, node: Node) -> None:
    """A matrix reads a transposed image in its own order: the columns of the weights are permuted."""
    reshape = graph.producer.get(node.inputs[0])
    if reshape is None or reshape.op != "Reshape" or math.prod(graph.shape(node.inputs[0])[:-1]) != 1:
        return
    turn = graph.producer.get(reshape.inputs[0])
    weights = graph.value(node.inputs[1])
    if turn is None or turn.op != "Transpose" or weights is None:
        return
    shape, order = graph.shape(turn.output), turn.integers("perm")
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    split = weights.reshape(weights.shape[0], *shape)
    moved = np.transpose(split, (0, *(axis + 1 for axis in inverse))).reshape(weights.shape)
    made = graph.constant(moved, name=node.inputs[1], quantization=graph.quantization(node.inputs[1]))
    flat = graph.emit(
        "Reshape",
        [turn.inputs[0]],
        {"shape": graph.shape(node.inputs[0])},
        source=reshape.source,
        quantization=graph.quantization(turn.inputs[0]),
    )
    graph.set_inputs(node, [flat, made, *node.inputs[2:]])


def _scale_layer(graph: Graph, node: Node) -> None:
    """A scale and a bias for each channel that no layer takes become a convolution of size 1."""
    found = _split_constant(graph, node)
    before = graph.producer.get(found[0]) if found else None
    if found is None or before is None or {before.op, node.op} != {"Mul", "Add"}:
        return
    inner = _split_constant(graph, before)
    if inner is None or graph.only_user(found[0]) is not node or len(graph.shape(inner[0])) != 4:
        return
    name = inner[0]
    if name != graph.input and inner[1].size == found[1].size == 1:
        return  # one number for all values: no layer with weights
    first, second = (_by_channel(graph, name, value, 1) for value in (inner[1], found[1]))
    quantised = graph.quantization(node.output) is not None or graph.quantization(found[0]) is not None
    if first is None or second is None or quantised or graph.shape(name) != graph.shape(node.output):
        return
    # x * first + second, or (x + first) * second
    scale, bias = (first, second) if node.op == "Add" else (second, first * second)
    weights = graph.constant(scale.reshape(-1, 1, 1, 1).astype(np.float32), name=f"{node.output}_scale")
    made = graph.constant(bias.astype(np.float32), name=f"{node.output}_bias")
    node.absorbed.append(before.source.operator)
    graph.set_inputs(node, [name, weights, made])
    node.op = "Conv"
    node.attributes = {
        "group": len(scale),
        "strides": (1, 1),
        "dilations": (1, 1),
        "pads": (0, 0, 0, 0),
    }
    graph.remove(before)
