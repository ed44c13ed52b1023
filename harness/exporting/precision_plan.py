"""Decides how every tensor is stored, as the engine does (engine/src/plan/precision.cpp).

A layer with weights works in the precision that the cfg asks for, and its input is converted if it arrives in
another. It stores int8 if the range of its output is known and some layer behind it works in int8, possibly
through layers that work in whatever they receive. All other layers keep the precision they receive, the
widest where several inputs meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from harness.config.darknet_cfg import NETWORK_INPUT, PRECISIONS
from harness.errors import ConfigurationError
from harness.exporting.calibration import Calibration, TensorRange
from harness.exporting.layer import NetworkLayer
from harness.exporting.network import Network
from harness.exporting.quantization import ChannelRanges, Grid, int16_scale_of_range
from harness.exporting.weights_file import Floats

_WIDTH = PRECISIONS  # the widest first
MOST_INT8_TERMS = 33000  # of a sum that int32 holds


class Rule(Enum):
    """The precision in which a layer computes, and that of its output (engine/src/layers/rules.h)."""

    ASKED = "as the cfg asks"
    KEEPS = "moves values only, in their format"
    JOINS = "as REQUANTIZES; inputs that it alone reads take its grid"
    REQUANTIZES = "computes in float; stores int8 if its range is known and its inputs are int8"
    WIDENS = "computes in float; stores the widest of its inputs' precisions, never int8"
    FLOAT = "computes in float and stores fp32"


def rule_of(layer: NetworkLayer) -> Rule:
    """The rule of a layer."""
    section = layer.section
    match layer.kind:
        case "convolutional" | "connected":
            return Rule.ASKED
        case "maxpool" | "reorg" | "dropout" | "cost" | "reshape" | "transpose" | "slice":
            return Rule.KEEPS
        case "softmax" | "layer_norm" | "yolo" | "region" | "constant" | "input":
            return Rule.FLOAT
        case "route":
            return Rule.KEEPS if len(layer.inputs) == 1 else Rule.JOINS
        case "pool":
            return Rule.REQUANTIZES if section.word("type") == "average" else Rule.KEEPS
        case "resize":
            return Rule.REQUANTIZES if section.word("mode") == "linear" else Rule.KEEPS
        case "upsample":
            return Rule.KEEPS if section.real("scale", 1.0) == 1 else Rule.WIDENS
        case "crop":
            return Rule.KEEPS if section.integer("noadjust", 0) else Rule.WIDENS
        case _:
            return Rule.REQUANTIZES


@dataclass(frozen=True, kw_only=True)
class TensorFormat:
    """How a tensor is stored."""

    precision: str = "fp32"
    grid: Grid | None = None  # of int8
    channels: ChannelRanges | None = None  # of int8 that depthwise convolutions alone read
    # The tensor whose range gives grid and channels.
    recorded: int | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class LayerFormat:
    """How a layer works. `converted` is what its input is converted to: None if it arrives so."""

    executed: str = "fp32"
    output: TensorFormat = field(default_factory=TensorFormat)
    converted: TensorFormat | None = None
    dynamic: bool = False  # converted to int8 with the range measured at run time
    int16_scale: float | None = None  # of the input of an int16 layer
    weight_scales: Floats | None = None  # int8: as published


def plan_precisions(network: Network, calibration: Calibration) -> tuple[LayerFormat, ...]:
    """The format of every layer. Raises ConfigurationError if an int8 layer needs a range that is missing."""
    return _Planner(network, calibration).plan()


def converted_precisions(network: Network) -> tuple[LayerFormat, ...]:
    """The format of every layer where a converter makes it as the cfg asks.

    Activations are integers where the converter records their ranges, and float32 elsewhere.
    """
    needing = [layer.precision for layer in network.layers if layer.needs_range]
    activations = needing[0] if needing else "fp32"
    return tuple(
        LayerFormat(
            executed=layer.precision or activations,
            output=TensorFormat(precision="fp32" if layer.precision == "fp32" else activations),
        )
        for layer in network.layers
    )


class _Planner:
    def __init__(self, network: Network, calibration: Calibration) -> None:
        self.network = network
        self.layers = network.layers
        self.calibration = calibration
        self.rules = [rule_of(layer) for layer in self.layers]
        self.consumers: list[list[NetworkLayer]] = [[] for _ in self.layers]
        for layer in self.layers:
            for source in layer.inputs:
                if source != NETWORK_INPUT:
                    self.consumers[source].append(layer)
        self.executed = [self._executed(layer) for layer in self.layers]
        self.capable = self._capable()
        self.wanted = self._wanted()
        self.stored: list[str] = []
        for layer in self.layers:
            self.stored.append(self._stored(layer))
        self.sinks = self._sinks()

    def plan(self) -> tuple[LayerFormat, ...]:
        outputs = [TensorFormat(precision=precision) for precision in self.stored]
        # The grid of a layer that joins is known before those of its inputs.
        for layer in reversed(self.layers):
            if self.stored[layer.index] == "int8" and self.rules[layer.index] is not Rule.KEEPS:
                outputs[layer.index] = self._int8(layer, outputs)
        for layer in self.layers:
            if self.stored[layer.index] == "int8" and self.rules[layer.index] is Rule.KEEPS:
                outputs[layer.index] = replace(outputs[layer.inputs[0]], channels=None)
        return tuple(self._format(layer, outputs[layer.index]) for layer in self.layers)

    def _executed(self, layer: NetworkLayer) -> str:
        if not layer.weighted:
            return ""
        terms = layer.filters[0][0].size
        return "fp32" if layer.precision == "int8" and terms > MOST_INT8_TERMS else layer.precision

    def _runs_int8(self, layer: NetworkLayer) -> bool:
        return self.executed[layer.index] == "int8"

    def _range(self, tensor: int) -> TensorRange | None:
        return self.calibration.tensors.get(tensor)

    def _is_constant(self, tensor: int) -> bool:
        return tensor != NETWORK_INPUT and self.layers[tensor].kind == "constant"

    def _capable(self) -> list[bool]:
        """Which tensors could be stored as int8."""
        found: list[bool] = []
        for layer, rule in zip(self.layers, self.rules, strict=True):
            inputs = all(
                source != NETWORK_INPUT and found[source]
                for source in layer.inputs
                if not self._is_constant(source)
            )
            known = self._range(layer.index) is not None
            found.append(
                (self._runs_int8(layer) and known)
                or (rule is Rule.KEEPS and inputs)
                or (rule in (Rule.REQUANTIZES, Rule.JOINS) and inputs and known)
            )
        return found

    def _wanted(self) -> list[bool]:
        """Which of them lead to a layer that works in int8, or are int8 in the published model."""
        found = [False] * len(self.layers)
        for layer in reversed(self.layers):
            known = self._range(layer.index)
            found[layer.index] = (known is not None and known.published) or any(
                self._runs_int8(consumer) or (self.capable[consumer.index] and found[consumer.index])
                for consumer in self.consumers[layer.index]
            )
        return found

    def _stored(self, layer: NetworkLayer) -> str:
        int8 = self.capable[layer.index] and self.wanted[layer.index]
        if layer.weighted:
            executed = self.executed[layer.index]
            return "fp32" if executed in ("int8", "int16") and not int8 else executed
        rule = self.rules[layer.index]
        if rule is Rule.FLOAT:
            return "fp32"
        if rule is Rule.KEEPS:
            return self._stored_at(layer.inputs[0])
        if int8:
            return "int8"
        given = [self._stored_at(source) for source in layer.inputs if not self._is_constant(source)]
        widest = min(given, key=_WIDTH.index, default="int8")
        return "fp32" if widest == "int8" else widest

    def _stored_at(self, tensor: int) -> str:
        return "fp32" if tensor == NETWORK_INPUT else self.stored[tensor]

    def _sinks(self) -> list[int | None]:
        """The one layer that joins int8 inputs in which all uses of a tensor end."""
        found: list[int | None] = [None] * len(self.layers)
        for layer in reversed(self.layers):
            ends: set[int | None] = set()
            for consumer in self.consumers[layer.index]:
                rule = self.rules[consumer.index]
                if rule is Rule.JOINS and self.stored[consumer.index] == "int8":
                    ends.add(consumer.index)
                else:
                    ends.add(found[consumer.index] if rule is Rule.KEEPS else None)
            found[layer.index] = ends.pop() if len(ends) == 1 else None
        return found

    def _int8(self, layer: NetworkLayer, outputs: list[TensorFormat]) -> TensorFormat:
        sink = self.sinks[layer.index]
        if sink is not None:
            joined = outputs[sink]
            return TensorFormat(precision="int8", grid=joined.grid, recorded=joined.recorded)
        consumers = self.consumers[layer.index]
        apart = bool(consumers) and all(self._runs_int8(each) and each.channels_apart for each in consumers)
        by_channel = apart and self.rules[layer.index] is not Rule.JOINS
        return self._calibrated(layer.index, by_channel=by_channel)

    def _calibrated(self, tensor: int, *, by_channel: bool) -> TensorFormat:
        known = self.calibration.tensors[tensor]
        channels = known.channels if by_channel and not known.published else None
        return TensorFormat(precision="int8", grid=known.grid, channels=channels, recorded=tensor)

    def _format(self, layer: NetworkLayer, output: TensorFormat) -> LayerFormat:
        executed = self.executed[layer.index]
        if not layer.weighted:
            return LayerFormat(executed=output.precision, output=output)
        plain = LayerFormat(executed=executed, output=output)
        if executed in ("int8", "int16"):
            plain = replace(plain, weight_scales=self.calibration.weight_scales.get(layer.index))
        source = layer.inputs[0]
        if self._stored_at(source) == executed:
            return plain
        if executed in ("fp32", "fp16"):
            return replace(plain, converted=TensorFormat(precision=executed))
        if layer.quantize and executed == "int8":
            return replace(plain, dynamic=True)
        known = self._range(source)
        if known is None:
            raise self._missing(layer, source)
        if executed == "int16":
            return replace(plain, int16_scale=int16_scale_of_range(known.low, known.high))
        return replace(plain, converted=self._calibrated(source, by_channel=layer.channels_apart))

    def _missing(self, layer: NetworkLayer, source: int) -> ConfigurationError:
        tensor = "the network's input" if source == NETWORK_INPUT else f"the output of layer {source}"
        return layer.error(
            f"is {self.executed[layer.index]} with quantize=0 and needs the range of {tensor}",
            key="int8",
            hint="Record ranges with `harness calibrate` and pass the file with --calibration, or set "
            "quantize=1.",
        )
