"""Fits a latency model to a few profiled inferences.

The three with all layers in one precision give the time of each layer in each precision. Those with mixed
precisions give what conversions cost: nanoseconds per value, one figure for each pair of precisions, fitted
by non-negative least squares to what layers take longer there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from harness.exporting.network import Network
from harness.search.assignment import Assignment
from harness.search.latency import LatencyModel, Milliseconds, all_alike
from harness.search.layer_timer import LayerTimer
from harness.search.memory import MemoryModel, probed_memory
from harness.search.precision_graph import WIDTH, Labels, PrecisionGraph

MIXED = 4  # inferences with mixed precisions


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One profiled inference."""

    assignment: Labels  # [layers with weights]
    layers: Milliseconds  # [layers]


def probe_assignments(graph: PrecisionGraph, *, seed: int = 1) -> Labels:
    """The assignments to profile: all layers alike, in the order of WIDTH, then random ones."""
    random = np.random.default_rng(seed)
    mixed = random.integers(0, len(WIDTH), (MIXED, len(graph.weighted))).astype(np.int8)
    return np.concatenate([all_alike(graph), mixed])


def probed_costs(
    network: Network, graph: PrecisionGraph, timer: LayerTimer
) -> tuple[LatencyModel, MemoryModel]:
    """The models of a network on the board of `timer`."""
    labels = probe_assignments(graph)
    times = timer.time([Assignment.of_labels(graph.weighted, row) for row in labels])
    values = [prod(network.shape_of(layer.inputs[0])) if layer.inputs else 0 for layer in network.layers]
    probes = [Probe(assignment=row, layers=timed.layers) for row, timed in zip(labels, times, strict=True)]
    latency = fit_latency(graph, np.array(values, np.int64), probes)
    return latency, probed_memory(network, graph, labels, times)


def fit_latency(
    graph: PrecisionGraph, values: npt.NDArray[np.int64], probes: Sequence[Probe]
) -> LatencyModel:
    """The model of the inferences `probe_assignments` names, in that order. `values` is the number of values
    in each layer's first input, [layers]."""
    executed = graph.executed(np.stack([probe.assignment for probe in probes]))
    stored = graph.stored(executed)
    times = np.stack([probe.layers for probe in probes])
    labels = stored.copy()
    weighted = list(graph.weighted)
    labels[:, weighted] = executed[:, weighted]
    alike = len(WIDTH)
    execution = _execution(labels[:alike], times[:alike])
    arrives = np.stack(
        [
            graph.stored_at(stored, node.inputs[0]) if node.inputs else np.zeros(len(probes), np.int8)
            for node in graph.nodes
        ],
        axis=1,
    )
    usual = np.zeros((len(graph.nodes), alike), np.int8)  # what arrives when all layers are alike
    for label in range(alike):
        usual[np.arange(len(usual)), labels[label]] = arrives[label]
    rates = _rates(graph, values, execution, labels[alike:], arrives[alike:], usual, times[alike:])
    conversion = np.zeros((len(graph.nodes), alike, alike))
    for index in weighted:
        for runs in range(alike):
            extra = rates[:, runs] - rates[usual[index, runs], runs]
            conversion[index, :, runs] = extra * values[index]
    return LatencyModel(graph=graph, execution=execution, conversion=conversion)


def _execution(labels: Labels, times: Milliseconds) -> Milliseconds:
    """[layers, WIDTH], from inferences with all layers alike. A precision in which a layer never works costs
    what fp32 does, in which every layer can."""
    found = np.repeat(times[:1].T, len(WIDTH), axis=1)
    for label in range(len(WIDTH)):
        at = labels == label
        count = at.sum(axis=0)
        seen = count > 0
        found[seen, label] = (times * at).sum(axis=0)[seen] / count[seen]
    return found


def _rates(
    graph: PrecisionGraph,
    values: npt.NDArray[np.int64],
    execution: Milliseconds,
    runs: Labels,
    arrives: Labels,
    usual: Labels,
    times: Milliseconds,
) -> Milliseconds:
    """Milliseconds for a value to convert, [WIDTH that arrives, WIDTH in which the layer runs]."""
    from scipy.optimize import nnls

    width = len(WIDTH)
    rows, extra = [], []
    for label, given, time in zip(runs, arrives, times, strict=True):
        for index in graph.weighted:
            row = np.zeros((width, width))
            row[given[index], label[index]] += values[index]
            row[usual[index, label[index]], label[index]] -= values[index]
            row[np.arange(width), np.arange(width)] = 0
            rows.append(row.ravel())
            extra.append(time[index] - execution[index, label[index]])
    scale = max(float(np.abs(rows).max()), 1.0)
    found, _ = nnls(np.array(rows) / scale, np.array(extra))
    rates: Milliseconds = (found / scale).reshape(width, width)
    return rates
