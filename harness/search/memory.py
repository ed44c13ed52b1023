"""The memory of an inference under any assignment of precisions.

    bytes = base + sum over layers with weights of weights[layer, in which it runs]
                 + the largest sum, over all moments of an inference, of the tensors needed then

The tensors of a moment are those that a layer still reads, in the precision in which they are stored, and the
input of the layer that runs, in the precision in which it works. The engine plans its arena so
(engine/src/plan/memory.h); this is what the plan needs at least, without the scratch memory of kernels.

A convolution may pool its own output, and then never stores all of it. Whether it does depends on its
algorithm, and so on the precision in which it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import NETWORK_INPUT
from harness.exporting.network import Network
from harness.exporting.precision_plan import Rule
from harness.search.layer_timer import Timed
from harness.search.precision_graph import WIDTH, Labels, PrecisionGraph

Bytes = npt.NDArray[np.float64]

VALUE_BYTES = np.array([4.0, 2.0, 1.0])  # in the order of WIDTH
_NOTHING_TO_DO = "none"  # the algorithm of a layer whose output lies where its input does
_POOLED = "fused"  # the algorithm of a pooling layer that the layer before computes
_OUTSIDE = ("constant", "input")  # layers whose values are not in the arena
_OF_HEADS = ("yolo", "region")  # layers whose input is an output of the network
# Layers that may write over an input which nothing else needs (MemoryRule::kInPlace).
_IN_PLACE = frozenset(
    {
        *("shortcut", "scale_channels", "activation", "prelu", "exp", "sqrt", "abs", "neg"),
        *("add", "sub", "mul", "div", "minimum", "maximum"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is in memory at one time."""

    tensors: tuple[int, ...]  # layers whose outputs are needed
    converting: int | None = None  # the layer whose input exists in another precision as well, if it has to
    reading: int | None = None  # the layer whose input exists only in the precision in which the layer works
    pooling: int | None = None  # the layer whose output is pooled now, if it has not pooled it itself


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """Memory of one model on one board."""

    graph: PrecisionGraph
    weights: Bytes  # [layers, WIDTH]
    outputs: npt.NDArray[np.int64]  # values, [layers]; 0 where the output lies in another one's memory
    inputs: npt.NDArray[np.int64]  # values of the first input, [layers]
    pools: npt.NDArray[np.bool_]  # [layers, WIDTH]: where it runs in this precision, it pools its own output
    moments: tuple[Moment, ...]
    base: float = 0.0  # what every assignment needs

    def bytes(self, assignments: Labels) -> Bytes:
        """Of each assignment, [assignments]. `assignments` is [assignments, layers with weights]."""
        executed = self.graph.executed(assignments)
        stored = self.graph.stored(executed)
        layers = np.arange(len(self.outputs))
        outputs = self.written[layers, executed] * VALUE_BYTES[stored]
        unpooled = self.unpooled[layers, executed] * VALUE_BYTES[stored]
        as_read = self.inputs * VALUE_BYTES[executed]
        most = np.zeros(len(assignments))
        for moment in self.moments:
            live = outputs[:, list(moment.tensors)].sum(axis=1)
            if moment.pooling is not None:
                live += unpooled[:, moment.pooling]
            if moment.reading is not None:
                live += as_read[:, moment.reading]
            if (index := moment.converting) is not None:
                arrives = self.graph.stored_at(stored, self.graph.nodes[index].inputs[0])
                live += np.where(arrives == executed[:, index], 0, as_read[:, index])
            most = np.maximum(most, live)
        places = list(self.graph.weighted)
        found: Bytes = self.base + most + self.weights[places, executed[:, places]].sum(axis=1)
        return found

    @property
    def written(self) -> npt.NDArray[np.int64]:
        """Values that each layer writes, by the precision in which it runs, [layers, WIDTH]."""
        pooled = np.append(self.outputs[1:], 0)
        return np.where(self.pools, pooled[:, None], self.outputs[:, None])

    @property
    def unpooled(self) -> npt.NDArray[np.int64]:
        """Values that each layer leaves to be pooled, by the precision in which it runs, [layers, WIDTH]."""
        return np.where(self.pools, 0, self.outputs[:, None])

    def raised(self, extra: float) -> MemoryModel:
        """The same with more for every assignment."""
        return replace(self, base=self.base + extra)


def probed_memory(
    network: Network, graph: PrecisionGraph, assignments: Labels, probes: Sequence[Timed]
) -> MemoryModel:
    """The model of a network from inferences of some assignments; the first are all layers in one precision,
    in the order of WIDTH."""
    outputs, ends = _tensors(network, graph, probes[0].algorithms)
    pools = _pools(graph, assignments, probes)
    inputs = np.array(
        [prod(network.shape_of(layer.inputs[0])) if layer.inputs else 0 for layer in network.layers]
    )
    model = MemoryModel(
        graph=graph,
        weights=_weights(network, graph, inputs, pools, assignments, probes),
        outputs=outputs,
        inputs=inputs,
        pools=pools,
        moments=tuple(moments_of(graph, outputs, inputs, ends, pools)),
    )
    missing = np.array([probe.memory_bytes for probe in probes]) - model.bytes(assignments)
    return model.raised(float(np.median(missing)))


def _tensors(
    network: Network, graph: PrecisionGraph, algorithms: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The values of each layer's output that lie in memory of their own, and the last layer that needs them;
    the number of layers: they are needed after the inference."""
    count = len(network.layers)
    outputs = np.array([0 if layer.kind in _OUTSIDE else prod(layer.out) for layer in network.layers])
    ends = np.array([max(readers, default=count) for readers in graph.consumers])
    for layer in network.layers:
        if layer.kind in _OF_HEADS and layer.inputs[0] != NETWORK_INPUT:
            ends[layer.inputs[0]] = count
    holders = list(range(count))
    for index, node in enumerate(graph.nodes):
        if len(node.inputs) != 1 or node.inputs[0] == NETWORK_INPUT or algorithms[index] != _NOTHING_TO_DO:
            continue
        holders[index] = holder = holders[node.inputs[0]]
        ends[holder] = max(ends[holder], ends[index])
        outputs[index] = 0
    for index, layer in enumerate(network.layers):
        dying = [
            holders[source]
            for source in graph.nodes[index].inputs
            if source != NETWORK_INPUT and ends[holders[source]] == index
        ]
        over = [holder for holder in dying if outputs[holder] == outputs[index]][:1]
        if graph.nodes[index].rule is Rule.JOINS:  # inputs may be written into their places in the output
            over = dying
        elif layer.kind not in _IN_PLACE:
            over = []
        ends[over] = index - 1
    return outputs, ends


def _pools(graph: PrecisionGraph, assignments: Labels, probes: Sequence[Timed]) -> npt.NDArray[np.bool_]:
    """[layers, WIDTH]: whether a layer pools its own output where it runs in this precision."""
    found = np.zeros((len(graph.nodes), len(WIDTH)), np.bool_)
    executed = graph.executed(assignments)
    for label, probe in enumerate(probes[: len(WIDTH)]):
        for index in graph.weighted:
            if index + 1 < len(graph.nodes) and probe.algorithms[index + 1] == _POOLED:
                found[index, executed[label, index]] = True
    return found


def moments_of(
    graph: PrecisionGraph,
    outputs: npt.NDArray[np.int64],
    inputs: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    pools: npt.NDArray[np.bool_],
) -> Iterator[Moment]:
    """All moments of an inference. `outputs`, `inputs` and `pools` are as in MemoryModel; `ends` are the last
    layers that need the outputs."""
    for index, node in enumerate(graph.nodes):
        live = [place for place in range(index + 1) if ends[place] >= index and outputs[place]]
        if index and pools[index - 1].any():  # nothing but this layer reads what the layer before writes
            yield Moment(tensors=tuple(place for place in live if place != index - 1), pooling=index - 1)
            continue
        if node.rule is not Rule.ASKED:
            yield Moment(tensors=tuple(live))
            continue
        source = node.inputs[0]
        if source in live and ends[source] == index and outputs[source] == inputs[index]:
            yield Moment(tensors=tuple(place for place in live if place != index), converting=index)
            yield Moment(tensors=tuple(place for place in live if place != source), reading=index)
        else:
            yield Moment(tensors=tuple(live), converting=index)


def _weights(
    network: Network,
    graph: PrecisionGraph,
    inputs: npt.NDArray[np.int64],
    pools: npt.NDArray[np.bool_],
    assignments: Labels,
    probes: Sequence[Timed],
) -> Bytes:
    """[layers, WIDTH]: of the bytes that a layer moves, those that are neither input nor output."""
    found = np.zeros((len(graph.nodes), len(WIDTH)))
    executed = graph.executed(assignments)
    stored = graph.stored(executed)
    for label, probe in enumerate(probes[: len(WIDTH)]):
        for index in graph.weighted:
            runs = executed[label, index]
            arrives = graph.stored_at(stored, graph.nodes[index].inputs[0])[label]
            values = prod(network.layers[index + 1 if pools[index, runs] else index].out)
            moved = values * VALUE_BYTES[stored[label, index]] + inputs[index] * VALUE_BYTES[arrives]
            if arrives != runs:  # the conversion's result is written, then read
                moved += 2 * inputs[index] * VALUE_BYTES[runs]
            found[index, label] = max(probe.moved[index] - moved, 0)
    return found
