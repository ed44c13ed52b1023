"""Fuses activations into the layers before them, and makes explicit what a grid clips."""

from __future__ import annotations

import math

from harness.importing.graph import Graph, Node
from harness.importing.shapes import BINARY

_INTO = {"Conv", "ConvTranspose", "Linear"} | BINARY
_CLIPPED = ("Conv", "ConvTranspose", "Linear", "Add")
_PLAIN = {
    "Relu": "relu",
    "Relu6": "relu6",
    "Sigmoid": "logistic",
    "Tanh": "tanh",
    "Mish": "mish",
    "Silu": "swish",
    "HardMish": "hard_mish",
    "HardSwish": "hard_swish",
    "Gelu": "gelu",
}


def fusable(node: Node) -> str:
    """The word for an activation that layers apply to their own output; "" if they cannot."""
    if node.op == "LeakyRelu":
        return "leaky" if math.isclose(node.number("alpha", 0.01), 0.1, rel_tol=1e-6) else ""
    if node.op == "Elu":
        return "elu" if node.number("alpha", 1.0) == 1.0 else ""
    if node.op == "HardSigmoid":
        usual = math.isclose(node.number("alpha", 0.2), 1 / 6, rel_tol=1e-3)
        return "hard_sigmoid" if usual and node.number("beta", 0.5) == 0.5 else ""
    return _PLAIN.get(node.op, "")


def fuse_activations(graph: Graph) -> None:
    """Each layer whose output only an activation reads computes it, too."""
    for node in graph.ordered():
        if node.op not in _INTO or "activation" in node.attributes:
            continue
        user = graph.only_user(node.output)
        if user is not None and (word := fusable(user)):
            node.attributes["activation"] = word
            graph.absorb(node, user)


def clip_by_grids(graph: Graph) -> None:
    """Quantised models leave out a Relu where the grid begins at zero. It matters in other precisions.

    On the grid itself it changes nothing.
    """
    for node in graph.ordered():
        grid = graph.quantization(node.output)
        if node.op not in _CLIPPED or grid is None or not grid.per_tensor or "activation" in node.attributes:
            continue
        (low,), (high,) = grid.bounds()
        if low != 0 or any(fusable(user) in ("relu", "relu6") for user in graph.users(node.output)):
            continue
        node.attributes["activation"] = "relu6" if math.isclose(high, 6, rel_tol=2e-3) else "relu"
