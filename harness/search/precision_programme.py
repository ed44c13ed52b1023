"""Assignments of precisions to the layers of a graph, as variables of an integer linear programme."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import NETWORK_INPUT
from harness.exporting.precision_plan import Rule
from harness.search.latency import LatencyModel
from harness.search.precision_graph import FP16, FP32, INT8, WIDTH, Labels

UNBOUNDED = np.inf

Row = Mapping[int, float]  # coefficients by variable


@dataclass
class Variables:
    """Places of a layer's variables. All are 0 or 1."""

    works: dict[int, int] = field(default_factory=dict)  # by precision: a layer with weights runs in it
    stored: dict[int, int] = field(default_factory=dict)  # by precision: the output has it
    capable: int | None = None  # the output could be int8; None: never
    int8: int | None = None  # and leads to a layer that runs in int8


class PrecisionProgramme:
    """One assignment of precisions to all layers, and what it makes of every tensor and conversion."""

    def __init__(
        self,
        model: LatencyModel,
        losses: npt.NDArray[np.float64],
        converting: Collection[int] = (),
    ) -> None:
        """`losses` is [layers with weights, WIDTH]. `converting` are layers of which `converted` needs every
        conversion, also those that cost no time."""
        self.model = model
        self.graph = model.graph
        self.converting = converting
        self.converted: dict[int, list[tuple[int, Row]]] = {index: [] for index in converting}
        self.whole: list[int] = []
        self._costs: list[float] = []
        self._upper: list[float] = []
        self._rows: list[tuple[Row, float, float]] = []
        self.losses: dict[int, float] = {}
        self.layers = [Variables() for _ in self.graph.nodes]
        for place, index in enumerate(self.graph.weighted):
            self._add_choice(index, losses[place])
        for index in range(len(self.graph.nodes)):
            self._add_capability(index)
        for index in range(len(self.graph.nodes)):
            self._constrain_int8(index)
        for index in range(len(self.graph.nodes)):
            self._add_storage(index)
        for index in self.graph.weighted:
            self._add_conversions(index)

    @property
    def size(self) -> int:
        return len(self.whole)

    def costs(self) -> npt.NDArray[np.float64]:
        return np.array(self._costs)

    def upper(self) -> npt.NDArray[np.float64]:
        return np.array(self._upper)

    def add(self, row: Row, *, low: float = -UNBOUNDED, high: float = UNBOUNDED) -> None:
        """Adds: the sum of coefficients times variables is from `low` to `high`."""
        self._rows.append((row, low, high))

    def constraints(self) -> tuple[object, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Matrix, lower and upper ends."""
        from scipy.sparse import csr_array

        entries = [
            (value, number, place)
            for number, (row, *_) in enumerate(self._rows)
            for place, value in row.items()
        ]
        values, numbers, places = zip(*entries, strict=True)
        matrix = csr_array((values, (numbers, places)), shape=(len(self._rows), self.size))
        low, high = (np.array([row[end] for row in self._rows]) for end in (1, 2))
        return matrix, low, high

    def assignment(self, values: npt.NDArray[np.float64]) -> Labels:
        chosen = [
            max(self.layers[index].works.items(), key=lambda item: values[item[1]])[0]
            for index in self.graph.weighted
        ]
        return np.array(chosen, np.int8)

    def variable(self, *, cost: float = 0.0, whole: bool = True, most: float = 1.0) -> int:
        """The place of a new variable, from 0 to `most`."""
        self.whole.append(int(whole))
        self._costs.append(cost)
        self._upper.append(most)
        return self.size - 1

    def _add_choice(self, index: int, losses: npt.NDArray[np.float64]) -> None:
        """One precision of a layer with weights."""
        execution = self.model.execution[index].copy()
        if not self.graph.nodes[index].int8:
            execution[INT8] = execution[FP32]
        for label in range(len(WIDTH)):
            place = self.variable(cost=execution[label], most=float(np.isfinite(losses[label])))
            self.layers[index].works[label] = place
            self.losses[place] = float(losses[label]) if np.isfinite(losses[label]) else 0.0
        self.add(dict.fromkeys(self.layers[index].works.values(), 1.0), low=1, high=1)

    def _runs_int8(self, index: int) -> int | None:
        """The variable that says that a layer runs in int8; None: it never does."""
        return self.layers[index].works.get(INT8) if self.graph.nodes[index].int8 else None

    def _add_capability(self, index: int) -> None:
        """Whether the output of a layer could be int8, and whether it is."""
        node, layer = self.graph.nodes[index], self.layers[index]
        if node.rule is Rule.ASKED:
            layer.capable = self._runs_int8(index) if node.known else None
        elif node.rule is Rule.KEEPS or (node.rule in (Rule.REQUANTIZES, Rule.JOINS) and node.known):
            inputs = {self.layers[source].capable for source in node.inputs if source != NETWORK_INPUT}
            given = {place for place in inputs if place is not None}
            if given == inputs and given and NETWORK_INPUT not in node.inputs:
                layer.capable = self._all_of(given)
        if layer.capable is not None:
            layer.int8 = self.variable()

    def _all_of(self, given: set[int]) -> int:
        """A variable that is 1 if all of these are."""
        if len(given) == 1:
            return next(iter(given))
        every = self.variable(whole=False)
        for place in given:
            self.add({every: 1.0, place: -1.0}, high=0)
        self.add({every: 1.0, **dict.fromkeys(given, -1.0)}, low=1 - len(given))
        return every

    def _constrain_int8(self, index: int) -> None:
        """int8 is stored if it could be, and a layer behind wants it."""
        layer = self.layers[index]
        if layer.int8 is None or layer.capable is None:
            return
        self.add({layer.int8: 1.0, layer.capable: -1.0}, high=0)
        readers = self.graph.consumers[index]
        wants = {
            variable for reader in readers for variable in (self._runs_int8(reader), self.layers[reader].int8)
        }
        wanting = {variable for variable in wants if variable is not None}
        self.add({layer.int8: 1.0, **dict.fromkeys(wanting, -1.0)}, high=0)
        for variable in wanting:
            self.add(row_sum({layer.int8: 1.0}, {layer.capable: -1.0}, {variable: -1.0}), low=-1)

    def _add_storage(self, index: int) -> None:
        """The precision of a layer's output."""
        node, layer = self.graph.nodes[index], self.layers[index]
        if node.rule is Rule.KEEPS and node.inputs[0] != NETWORK_INPUT:
            layer.stored = dict(self.layers[node.inputs[0]].stored)
            for label, place in layer.stored.items():
                self._costs[place] += self.model.execution[index, label]
            return
        weighted = node.rule is Rule.ASKED
        cost = np.zeros(len(WIDTH)) if weighted else self.model.execution[index]
        layer.stored = {label: self.variable(cost=cost[label], whole=False) for label in (FP32, FP16)}
        if layer.int8 is not None:
            layer.stored[INT8] = layer.int8
            self._costs[layer.int8] += cost[INT8]
        self.add(dict.fromkeys(layer.stored.values(), 1.0), low=1, high=1)
        if weighted:
            self.add({layer.stored[FP16]: 1.0, layer.works[FP16]: -1.0}, low=0, high=0)
        elif node.rule is Rule.FLOAT or not node.inputs:
            self.add({layer.stored[FP16]: 1.0}, high=0)
        else:
            self._store_widest(index)

    def _store_widest(self, index: int) -> None:
        """fp16 if none of the inputs is fp32, one is fp16, and the output is not int8; else fp32."""
        half = self.layers[index].stored[FP16]
        int8 = self.layers[index].int8
        inputs = self.graph.nodes[index].inputs
        wide = [self.stored_as(source, FP32) for source in inputs]
        halves = [self.stored_as(source, FP16) for source in inputs]
        narrow = {} if int8 is None else {int8: 1.0}
        self.add(row_sum({half: 1.0}, narrow), high=1)
        for fp32, constant in wide:
            self.add(row_sum({half: 1.0}, fp32), high=1 - constant)
        self.add(row_sum({half: 1.0}, *(scaled(fp16, -1) for fp16, _ in halves)), high=0)
        others = sum(constant for _, constant in wide)
        for fp16, _ in halves:
            if fp16:
                row = row_sum({half: 1.0}, narrow, scaled(fp16, -1), *(fp32 for fp32, _ in wide))
                self.add(row, low=-others)

    def stored_as(self, tensor: int, label: int) -> tuple[Row, float]:
        """Whether a tensor has a precision: a variable, or a constant."""
        if tensor == NETWORK_INPUT:
            return {}, float(label == FP32)
        place = self.layers[tensor].stored.get(label)
        return ({}, 0.0) if place is None else ({place: 1.0}, 0.0)

    def _add_conversions(self, index: int) -> None:
        source = self.graph.nodes[index].inputs[0]
        for arrives in range(len(WIDTH)):
            row, constant = self.stored_as(source, arrives)
            for label, works in self.layers[index].works.items():
                runs = FP32 if label == INT8 and not self.graph.nodes[index].int8 else label
                cost = self.model.conversion[index, arrives, runs]
                needed = index in self.converting and arrives != runs
                if cost == 0 and not needed:
                    continue
                if not row:
                    self._costs[works] += cost * constant
                    if needed and constant:
                        self.converted[index].append((runs, {works: constant}))
                    continue
                # Both together; costs may be negative, so it is bounded from both sides.
                both = self.variable(cost=cost, whole=False)
                self.add(row_sum({both: 1.0, works: -1.0}, scaled(row, -1)), low=-1)
                self.add({both: 1.0, works: -1.0}, high=0)
                self.add(row_sum({both: 1.0}, scaled(row, -1)), high=0)
                if needed:
                    self.converted[index].append((runs, {both: 1.0}))


def row_sum(*rows: Row) -> Row:
    """Coefficients of equal variables are added."""
    found: dict[int, float] = {}
    for row in rows:
        for place, value in row.items():
            found[place] = found.get(place, 0.0) + value
    return found


def scaled(row: Row, factor: float) -> Row:
    """All coefficients times `factor`."""
    return {place: factor * value for place, value in row.items()}
