"""In which precision each tensor is stored when some layers work in fp32, some in fp16 and some in int8.

These are the engine's rules (engine/src/plan/precision.cpp) for many assignments at once. An assignment gives
every layer with weights a precision, as its index in WIDTH.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import NETWORK_INPUT, PRECISIONS
from harness.exporting.calibration import Calibration
from harness.exporting.network import Network
from harness.exporting.precision_plan import MOST_INT8_TERMS, Rule, rule_of

WIDTH = PRECISIONS  # the widest first
FP32, FP16, INT8 = range(3)

Labels = npt.NDArray[np.int8]  # indices in WIDTH


@dataclass(frozen=True, kw_only=True)
class Node:
    """A layer, as far as precisions depend on it."""

    rule: Rule
    inputs: tuple[int, ...]  # without constants
    known: bool  # the range of its output, which int8 needs
    int8: bool = True  # int8's sums fit in int32; False: it runs in fp32 instead


@dataclass(frozen=True, kw_only=True)
class PrecisionGraph:
    """The layers in their order."""

    nodes: tuple[Node, ...]

    @property
    def weighted(self) -> tuple[int, ...]:
        """The layers with a precision of their own."""
        return tuple(index for index, node in enumerate(self.nodes) if node.rule is Rule.ASKED)

    @property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """The layers that read each layer's output."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for source in node.inputs:
                if source != NETWORK_INPUT:
                    found[source].append(index)
        return tuple(map(tuple, found))

    def executed(self, assignments: Labels) -> Labels:
        """The precision in which each layer with weights runs, [assignments, layers]; FP32 for the others.
        `assignments` is [assignments, layers with weights]."""
        found = np.zeros((len(assignments), len(self.nodes)), np.int8)
        found[:, list(self.weighted)] = assignments
        for index, node in enumerate(self.nodes):
            if not node.int8:
                found[found[:, index] == INT8, index] = FP32
        return found

    def stored(self, executed: Labels) -> Labels:
        """The precision of each layer's output, [assignments, layers]."""
        int8 = self._int8(executed)
        found = np.zeros_like(executed)
        for index, node in enumerate(self.nodes):
            given = [self.stored_at(found, source) for source in node.inputs]
            if node.rule is Rule.ASKED:
                found[:, index] = np.where(executed[:, index] == INT8, FP32, executed[:, index])
            elif node.rule is Rule.KEEPS:
                found[:, index] = given[0]
                continue
            elif node.rule is not Rule.FLOAT and given:
                widest = np.minimum.reduce(given)
                found[:, index] = np.where(widest == INT8, FP32, widest)
            found[int8[:, index], index] = INT8
        return found

    @staticmethod
    def stored_at(stored: Labels, tensor: int) -> Labels:
        """The precision of one tensor, [assignments]; the network's input arrives in fp32."""
        if tensor == NETWORK_INPUT:
            return np.full(len(stored), FP32, np.int8)
        return stored[:, tensor]

    def _int8(self, executed: Labels) -> npt.NDArray[np.bool_]:
        """Which outputs can be int8, and lead to a layer that works in int8."""
        works = executed == INT8
        capable = np.zeros(executed.shape, np.bool_)
        for index, node in enumerate(self.nodes):
            match node.rule:
                case Rule.ASKED:
                    capable[:, index] = works[:, index] & node.known
                case Rule.KEEPS | Rule.REQUANTIZES | Rule.JOINS:
                    known = node.known or node.rule is Rule.KEEPS
                    inputs = [
                        capable[:, source] if source != NETWORK_INPUT else np.zeros(len(works), np.bool_)
                        for source in node.inputs
                    ]
                    capable[:, index] = np.logical_and.reduce([np.full(len(works), known), *inputs])
                case _:
                    pass
        found = np.zeros_like(capable)
        for index in reversed(range(len(self.nodes))):
            for consumer in self.consumers[index]:
                found[:, index] |= works[:, consumer] | found[:, consumer]
            found[:, index] &= capable[:, index]
        return found


def precision_graph(network: Network, calibration: Calibration) -> PrecisionGraph:
    """The graph of a network whose int8 layers would use these ranges. Published ranges, which are int8
    whatever reads them, are not for searches."""
    return PrecisionGraph(
        nodes=tuple(
            Node(
                rule=rule_of(layer),
                inputs=tuple(
                    source
                    for source in layer.inputs
                    if source == NETWORK_INPUT or network.layers[source].kind != "constant"
                ),
                known=layer.index in calibration.tensors,
                int8=not layer.weighted or layer.filters[0][0].size <= MOST_INT8_TERMS,
            )
            for layer in network.layers
        )
    )
