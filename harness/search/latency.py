"""The time of an inference under any assignment of precisions, as a sum over layers.

    milliseconds = sum over layers with weights of execution[layer, in which it runs]
                                                 + conversion[layer, what arrives, in which it runs]
                 + sum over other layers of execution[layer, in which its output is stored]

A conversion is paid where a tensor arrives in another precision than a layer works in, wherever the tensor
comes from: these costs belong to the edges of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.exporting.precision_plan import Rule
from harness.search.precision_graph import WIDTH, Labels, PrecisionGraph

Milliseconds = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """Times of one model on one board."""

    graph: PrecisionGraph
    execution: Milliseconds  # [layers, WIDTH]: with what arrives when all layers have that precision
    conversion: Milliseconds  # [layers, WIDTH that arrives, WIDTH in which the layer runs], beyond that

    def milliseconds(self, assignments: Labels) -> Milliseconds:
        """Of each assignment, [assignments]. `assignments` is [assignments, layers with weights]."""
        total: Milliseconds = self.by_layer(assignments).sum(axis=1)
        return total

    def by_layer(self, assignments: Labels) -> Milliseconds:
        """Of each layer under each assignment, [assignments, layers]."""
        executed = self.graph.executed(assignments)
        stored = self.graph.stored(executed)
        times = np.empty(executed.shape)
        for index, node in enumerate(self.graph.nodes):
            if node.rule is Rule.ASKED:
                works = executed[:, index]
                arrives = self.graph.stored_at(stored, node.inputs[0])
                times[:, index] = self.execution[index, works] + self.conversion[index, arrives, works]
            else:
                times[:, index] = self.execution[index, stored[:, index]]
        return times

    def without_conversions(self) -> LatencyModel:
        """The same for searches that do not count conversions."""
        return LatencyModel(
            graph=self.graph, execution=self.execution, conversion=np.zeros_like(self.conversion)
        )


def all_alike(graph: PrecisionGraph) -> Labels:
    """An assignment per precision, with every layer in it, [WIDTH, layers with weights]."""
    return np.repeat(np.arange(len(WIDTH), dtype=np.int8)[:, None], len(graph.weighted), axis=1)
