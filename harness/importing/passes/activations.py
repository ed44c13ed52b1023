"""Recognises activations that a model spells out in several operators."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.importing.graph import Attribute, Graph, Node

Values = npt.NDArray[np.float64]

_CLOSE = 1e-3  # relative, of constants such as 0.7978846


def recognise_activations(graph: Graph) -> None:
    """Clip, HardSigmoid, HardSwish, Silu, Mish and both forms of Gelu, in any order of their operands."""
    for node in graph.ordered():
        if node in graph.nodes and node.op in ("Min", "Max", "Clip"):
            _clip(graph, node)
    for recognise in (_hard_sigmoid, _product):
        for node in graph.ordered():
            if node in graph.nodes:
                recognise(graph, node)


def scalar(graph: Graph, name: str) -> float | None:
    """The number of a constant whose elements are all the same."""
    value = graph.value(name)
    if value is None or value.size == 0 or value.dtype.kind not in "fiu":
        return None
    first = float(value.reshape(-1)[0])
    return first if np.all(value == first) else None


def operand_and_number(graph: Graph, node: Node) -> tuple[str, float] | None:
    """The computed and the constant operand of an operation with two."""
    if len(node.inputs) == 2:
        for name, other in (node.inputs, node.inputs[::-1]):
            number = scalar(graph, other)
            if number is not None and graph.value(name) is None:
                return name, number
    return None


def _clip(graph: Graph, node: Node) -> None:
    """Min and Max with a number, and Clip, become Relu, Relu6 or one Clip."""
    if node.op in ("Min", "Max"):
        found = operand_and_number(graph, node)
        if found is None or graph.shape(found[0]) != graph.shape(node.output):
            return
        graph.set_inputs(node, [found[0]])
        node.attributes = {"max" if node.op == "Min" else "min": found[1]}
        node.op = "Clip"
    before = graph.producer.get(node.inputs[0])
    if before is not None and before.op in ("Clip", "Relu") and graph.only_user(before.output) is node:
        low, high = _limits(before)
        least, most = _limits(node)
        _become(graph, node, "Clip", before.inputs[0], min=max(low, least), max=min(max(high, least), most))
        graph.remove(before)
    low, high = _limits(node)
    if low == 0 and high == 6:
        _become(graph, node, "Relu6", node.inputs[0])
    elif low == 0 and high == math.inf:
        _become(graph, node, "Relu", node.inputs[0])


def _limits(node: Node) -> tuple[float, float]:
    if node.op == "Relu":
        return 0.0, math.inf
    return node.number("min", -math.inf), node.number("max", math.inf)


def _become(graph: Graph, node: Node, op: str, name: str, **attributes: Attribute) -> None:
    graph.set_inputs(node, [name])
    node.op, node.attributes = op, attributes


def _hard_sigmoid(graph: Graph, node: Node) -> None:
    """Relu6(x + 3) / 6, where nothing else reads the parts."""
    if node.op not in ("Div", "Mul"):
        return
    found = operand_and_number(graph, node)
    if found is None or not _close(found[1], 6 if node.op == "Div" else 1 / 6):
        return
    if (name := _three_more(graph, found[0], node)) is not None:
        _become(graph, node, "HardSigmoid", name, alpha=1 / 6, beta=0.5)


def _three_more(graph: Graph, name: str, reader: Node) -> str | None:
    """The x of Relu6(x + 3)."""
    clip = _inner(graph, name, "Relu6", reader)
    more = clip and _inner(graph, clip.inputs[0], "Add", clip)
    found = operand_and_number(graph, more) if more else None
    return found[0] if found and _close(found[1], 3) else None


def _inner(graph: Graph, name: str, op: str, reader: Node) -> Node | None:
    """The node of an operator that makes a tensor for one reader alone."""
    node = graph.producer.get(name)
    return node if node is not None and node.op == op and graph.only_user(name) is reader else None


def _product(graph: Graph, node: Node) -> None:
    """x * f(x), where f ends the activation."""
    if node.op not in ("Mul", "Div"):
        return
    user = graph.only_user(node.output)
    if user is not None and user.op == "Mul" and not _is_square(user):
        return  # the whole product is looked at
    factors, number = [], 1.0
    for name, reader, inverse in _factors(graph, node):
        constant = scalar(graph, name)
        if constant is None:
            if inverse:
                return
            factors.append((name, reader))
        else:
            number = number / constant if inverse and constant else number * constant
    if len(factors) == 2:
        for (x, _), (gate, reader) in (factors, factors[::-1]):
            if graph.shape(x) == graph.shape(node.output) and _gated(graph, node, x, gate, reader, number):
                return


def _is_square(node: Node) -> bool:
    return len(set(node.inputs)) == 1


def _factors(graph: Graph, node: Node) -> Iterator[tuple[str, Node, bool]]:
    """The factors of a product of products, each with the node that reads it and whether it divides."""
    for place, name in enumerate(node.inputs):
        inner = graph.producer.get(name)
        divides = node.op == "Div" and place == 1
        if inner is not None and inner.op in ("Mul", "Div") and graph.only_user(name) is node and not divides:
            yield from _factors(graph, inner)
        else:
            yield name, node, divides


def _gated(graph: Graph, node: Node, x: str, gate: str, reader: Node, number: float) -> bool:
    """Whether the product of x, a gate and a number is an activation, which the node becomes then."""
    maker = graph.producer.get(gate)
    if maker is None or graph.only_user(gate) is not reader or graph.quantization(gate) is not None:
        return False  # the rounding of a gate is part of a quantised model's accuracy
    op = ""
    if maker.inputs[0] == x and _close(number, 1):
        if maker.op == "Sigmoid":
            op = "Silu"
        elif (
            maker.op == "HardSigmoid"
            and _close(maker.number("alpha", 0.2), 1 / 6)
            and _close(maker.number("beta", 0.5), 0.5)
        ):
            op = "HardSwish"
    if not op and maker.op == "Relu6" and _close(number, 1 / 6) and _three_more(graph, gate, reader) == x:
        op = "HardSwish"
    if not op and maker.op == "Tanh" and _close(number, 1):
        plus = _inner(graph, maker.inputs[0], "Softplus", maker)
        op = "Mish" if plus and plus.inputs[0] == x else ""
    if not op and maker.op == "Add" and _close(number, 0.5):
        op = _gelu(graph, x, maker)
    if op:
        node.absorbed.append(maker.source.operator)
        _become(graph, node, op, x)
    return bool(op)


def _gelu(graph: Graph, x: str, plus: Node) -> str:
    """The form of a Gelu whose gate is 1 + erf(...) or 1 + tanh(...); "" if it is none."""
    found = operand_and_number(graph, plus)
    if found is None or not _close(found[1], 1):
        return ""
    inner = graph.producer.get(found[0])
    if inner is None or graph.only_user(found[0]) is not plus:
        return ""
    scaled = graph.producer.get(inner.inputs[0])
    if inner.op == "Erf" and scaled is not None:
        factor = operand_and_number(graph, scaled)
        root = {"Div": math.sqrt(2), "Mul": math.sqrt(0.5)}.get(scaled.op, math.nan)
        return "Gelu" if factor and factor[0] == x and _close(factor[1], root) else ""
    if inner.op == "Tanh" and scaled is not None and scaled.op == "Mul":
        return "GeluTanh" if _is_cubic(graph, x, scaled) else ""
    return ""


def _is_cubic(graph: Graph, x: str, scaled: Node) -> bool:
    """sqrt(2 / pi) * (x + 0.044715 * x ** 3), checked by its value: there are many ways to write it."""
    samples = np.linspace(-3, 3, 7)
    value = _evaluated(graph, scaled.output, x, samples, depth=8)
    expected = math.sqrt(2 / math.pi) * (samples + 0.044715 * samples**3)
    return value is not None and bool(np.allclose(value, expected, rtol=_CLOSE, atol=_CLOSE))


def _evaluated(graph: Graph, name: str, x: str, samples: Values, depth: int) -> Values | None:
    """A tensor's values where x has the samples' values; None if it depends on anything else."""
    if name == x:
        return samples
    number = scalar(graph, name)
    if number is not None:
        return np.array(number)
    node = graph.producer.get(name)
    if node is None or depth == 0 or node.op not in ("Add", "Mul", "Pow"):
        return None
    parts = [_evaluated(graph, part, x, samples, depth - 1) for part in node.inputs]
    if any(part is None for part in parts):
        return None
    first, second = (np.asarray(part, np.float64) for part in parts)
    function = {"Add": np.add, "Mul": np.multiply, "Pow": np.power}[node.op]
    return np.asarray(function(first, second), np.float64)


def _close(number: float, expected: float) -> bool:
    return math.isclose(number, expected, rel_tol=_CLOSE)
