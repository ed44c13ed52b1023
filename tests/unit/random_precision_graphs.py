"""Random networks as graphs of precisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import NETWORK_INPUT
from harness.exporting.precision_plan import Rule
from harness.search.memory import MemoryModel, Moment, moments_of
from harness.search.precision_graph import WIDTH, Node, PrecisionGraph

WEIGHTED = 8
UNWEIGHTED = (Rule.KEEPS, Rule.JOINS, Rule.REQUANTIZES, Rule.WIDENS, Rule.FLOAT)


def random_graph(random: np.random.Generator) -> PrecisionGraph:
    """Eight layers with weights in any order among up to six others, with one to three inputs each."""
    rules = [Rule.ASKED] * WEIGHTED + list(random.choice(np.array(UNWEIGHTED), random.integers(0, 7)))
    random.shuffle(rules)
    nodes = []
    for index, rule in enumerate(rules):
        several = rule in (Rule.JOINS, Rule.REQUANTIZES, Rule.WIDENS)
        count = int(random.integers(1, 4)) if several else 1
        # Mostly recent layers, so that there are chains as well as branches.
        reach = max(index - int(random.integers(1, 5)), NETWORK_INPUT)
        inputs = tuple(int(source) for source in random.integers(reach, index, count))
        nodes.append(Node(rule=rule, inputs=inputs, known=random.random() < 0.9, int8=random.random() < 0.95))
    return PrecisionGraph(nodes=tuple(nodes))


def any_memory(graph: PrecisionGraph, random: np.random.Generator) -> MemoryModel:
    """Any tensors at any moment, and mostly a layer that reads its input converted or converts it."""
    layers = len(graph.nodes)
    moments = []
    for index in range(layers):
        tensors = tuple(np.flatnonzero(random.random(layers) < 0.3).tolist())
        weighted = index if index in graph.weighted else None
        reads = random.random() < 0.5
        moments.append(
            Moment(
                tensors=tensors,
                converting=None if reads else weighted,
                reading=weighted if reads else None,
            )
        )
    return MemoryModel(
        graph=graph,
        weights=random.uniform(0, 3000, (layers, len(WIDTH))) * [4, 2, 1],
        outputs=random.integers(0, 5000, layers),
        inputs=random.integers(1, 5000, layers),
        pools=np.zeros((layers, len(WIDTH)), np.bool_),
        moments=tuple(moments),
        base=float(random.uniform(0, 20000)),
    )


def memory_of_lifetimes(graph: PrecisionGraph, random: np.random.Generator) -> MemoryModel:
    """Tensors as long as a layer reads them; some have no memory of their own; some layers pool what
    they write."""
    layers = len(graph.nodes)
    outputs = random.integers(1000, 50000, layers)
    inputs = np.array([outputs[node.inputs[0]] if node.inputs[0] >= 0 else 10000 for node in graph.nodes])
    ends = np.array([max(readers, default=layers) for readers in graph.consumers])
    outputs[random.random(layers) < 0.3] = 0
    weights = random.uniform(0, 3000, (layers, 1)) * [4, 2, 1]
    pooled = [
        index
        for index in graph.weighted
        if graph.consumers[index] == (index + 1,) and graph.nodes[index + 1].rule is Rule.KEEPS
    ]
    pools = _some_of(pooled, graph, random)
    return MemoryModel(
        graph=graph,
        weights=weights,
        outputs=outputs,
        inputs=inputs,
        pools=pools,
        moments=tuple(moments_of(graph, outputs, inputs, ends, pools)),
    )


def _some_of(
    layers: Sequence[int], graph: PrecisionGraph, random: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """[layers of the graph, WIDTH]: two thirds of these layers, in one precision or several."""
    pools = np.zeros((len(graph.nodes), len(WIDTH)), np.bool_)
    pools[list(layers)] = random.random((len(layers), len(WIDTH))) < 0.3
    return pools
