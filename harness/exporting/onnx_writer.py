"""Writes a network as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import harness
from harness.config.darknet_cfg import NETWORK_INPUT
from harness.errors import ConfigurationError
from harness.exporting.layer import NetworkLayer
from harness.exporting.network import Network
from harness.exporting.onnx_activations import activated
from harness.exporting.onnx_filters import filtered
from harness.exporting.onnx_graph import IR_VERSION, OPSET, OnnxGraph
from harness.exporting.onnx_kinds import KINDS
from harness.exporting.onnx_operation import LARGEST_HALF, Operation
from harness.exporting.onnx_tensors import Tensors
from harness.exporting.outputs import Output
from harness.exporting.precision_plan import LayerFormat, Rule, rule_of

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

_LARGEST_MODEL = 2**31 - 1  # bytes of a protocol buffer


def onnx_model(
    network: Network, formats: Sequence[LayerFormat], outputs: Sequence[Output], metadata: Mapping[str, str]
) -> bytes:
    """The content of an ONNX file. Raises ConfigurationError for a layer that cannot be exported."""
    writer = _Writer(network, formats, outputs)
    writer.write()
    model = writer.model(metadata)
    if model.ByteSize() > _LARGEST_MODEL:
        raise ConfigurationError(f"{network.file}: as ONNX it has more than 2 GiB, which a file cannot have")
    _check(model, network)
    return bytes(model.SerializeToString())


def _check(model: ModelProto, network: Network) -> None:
    """Raises ConfigurationError where the shapes of the graph contradict those of the cfg."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise ConfigurationError(
            f"{network.file}: its layers do not fit together: {' '.join(str(error).split())[:300]}",
            hint="`harness predict` or `eval` with this cfg names the line.",
        ) from None


class _Writer:
    def __init__(self, network: Network, formats: Sequence[LayerFormat], outputs: Sequence[Output]) -> None:
        self.network = network
        self.formats = formats
        self.outputs = outputs
        self.graph = OnnxGraph()
        self.tensors = Tensors(self.graph, network, formats)
        self.inputs: list[ValueInfoProto] = []
        self.infos: list[ValueInfoProto] = []
        self.renamed: dict[str, str] = {}  # tensors that are outputs under the outputs' names

    def write(self) -> None:
        # The names of inputs and outputs are the user's; those of tensors between them give way.
        self._add_input(NETWORK_INPUT)
        names = [self.graph.free_name(output.name) for output in self.outputs]
        for layer in self.network.layers:
            if layer.kind == "input":
                self._add_input(layer.index)
        for layer in self.network.needed():
            self._add_layer(layer)
        for output, name in zip(self.outputs, names, strict=True):
            self._add_output(output, name)

    def _add_input(self, tensor: int) -> None:
        name = self.graph.free_name(self.network.name_of(tensor))
        self.inputs.append(_info(name, (1, *self.network.shape_of(tensor))))
        self.tensors.add_given(tensor, name)

    def _add_layer(self, layer: NetworkLayer) -> None:
        match layer.kind:
            case "input":
                return
            case "dropout" | "cost" | "yolo" | "region":
                self.tensors.add_alias(layer.index, layer.inputs[0])
            case "route" if len(layer.inputs) == 1 and layer.groups == 1:
                self.tensors.add_alias(layer.index, layer.inputs[0])
            case "constant":
                assert layer.weights is not None
                self.tensors.add_given(layer.index, self.graph.constant(layer.weights[None], layer.tensor))
            case _:
                self._add_computed(layer)

    def _add_computed(self, layer: NetworkLayer) -> None:
        form = self.formats[layer.index]
        first = len(self.graph.nodes)
        name = self.graph.free_name(layer.tensor)
        if layer.weighted:
            result = filtered(self.graph, layer, form, self.tensors)
        else:
            result = self._computed(layer, form)
        self.graph.rename(result, name, first)
        self.infos.append(_info(name, (1, *layer.out), half=form.output.precision == "fp16"))
        self.tensors.store(layer.index, name)

    def _computed(self, layer: NetworkLayer, form: LayerFormat) -> str:
        """The output of a layer without weights, in the float type in which it is stored."""
        half = form.output.precision == "fp16"
        moves = rule_of(layer) in (Rule.KEEPS, Rule.JOINS) and layer.activation == "linear"
        in_halves = (self.tensors.computes_halves or moves) and not self._exceeds_half(layer)
        precision = "fp16" if half and in_halves else "fp32"
        o = Operation(
            graph=self.graph,
            layer=layer,
            inputs=tuple(self.tensors.read(source, precision) for source in layer.inputs),
            precision=precision,
        )
        result = KINDS[layer.kind](o)
        if layer.kind != "activation":
            result = activated(o, result, layer.activation)
        if result in o.inputs:  # nothing is left to compute
            result = o.emit("Identity", result)
        if half and precision == "fp32":
            result = self.tensors.cast(result, "fp16")
        if form.output.channels is not None:
            factors = self.tensors.grid(layer.index, form.output)[1]
            assert factors is not None
            result = self.tensors.scaled(result, np.reciprocal(factors))
        return result

    def _exceeds_half(self, layer: NetworkLayer) -> bool:
        """Whether one of its constants is infinite as half."""
        sources = [self.network.layers[source] for source in layer.inputs if source != NETWORK_INPUT]
        numbers = [layer.weights, layer.bias, *(each.weights for each in sources if each.kind == "constant")]
        return any(each is not None and np.abs(each).max(initial=0) > LARGEST_HALF for each in numbers)

    def _add_output(self, output: Output, name: str) -> None:
        value = self.tensors.read(output.layer, "fp32")
        value = self.renamed.get(value, value)
        if output.shape != (1, *self.network.shape_of(output.layer)):
            shape = self.graph.shared(np.array(output.shape, np.int64), "shape")
            self.graph.node("Reshape", (value, shape), name)
        elif value in self.renamed.values() or not self.graph.computes(value):
            self.graph.node("Identity", (value,), name)
        else:
            self.graph.rename(value, name)
            self.renamed[value] = name

    def model(self, metadata: Mapping[str, str]) -> ModelProto:
        from onnx import helper

        graph = helper.make_graph(
            self.graph.nodes,
            "network",
            self.inputs,
            [_info(output.name, output.shape) for output in self.outputs],
            self.graph.constants,
            value_info=[info for info in self.infos if info.name not in self.renamed],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="harness",
            producer_version=harness.__version__,
        )
        helper.set_model_props(model, dict(metadata))
        return model


def _info(name: str, shape: Sequence[int], *, half: bool = False) -> ValueInfoProto:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(
        name, TensorProto.FLOAT16 if half else TensorProto.FLOAT, list(shape)
    )
