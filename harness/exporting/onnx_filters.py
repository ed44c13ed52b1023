"""Layers with weights as ONNX, in each precision: fp32, fp16, int8 as QDQ or with ConvInteger, int16."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.exporting.layer import NetworkLayer
from harness.exporting.onnx_activations import activated
from harness.exporting.onnx_graph import Array, OnnxGraph
from harness.exporting.onnx_kinds import KINDS
from harness.exporting.onnx_operation import LARGEST_HALF, TYPES, Operation
from harness.exporting.onnx_tensors import Tensors
from harness.exporting.onnx_windows import convolution_attributes
from harness.exporting.precision_plan import LayerFormat
from harness.exporting.quantization import Grid, quantised_bias, quantised_weights, weight_scales
from harness.exporting.weights_file import Floats


def filtered(graph: OnnxGraph, layer: NetworkLayer, form: LayerFormat, tensors: Tensors) -> str:
    """The output of a convolution or connected layer, in the float type in which it is stored."""
    if form.executed == "int8":
        return _in_int8(graph, layer, form, tensors)
    half = form.executed == "fp16"
    precision = "fp16" if half and tensors.computes_halves else "fp32"
    widened = half and precision == "fp32"
    source = layer.inputs[0]
    x = tensors.read_widened(source) if widened else tensors.read(source, precision)
    o = Operation(graph=graph, layer=layer, inputs=(x,), precision=precision)
    weights, bias = layer.filters
    if form.executed == "int16":
        x, weights = _on_int16_steps(o, form), _on_int8_steps(layer, form)
    if half:
        _check_halves(layer, weights)
    stored = graph.constant(
        _as_window(layer, weights).astype(TYPES["fp16" if half else "fp32"]), f"{layer.tensor}/weights"
    )
    o = replace(
        o,
        inputs=(x,),
        weights=tensors.cast(stored, "fp32") if widened else stored,
        bias=graph.constant(bias.astype(TYPES[precision]), f"{layer.tensor}/bias"),
    )
    result = activated(o, KINDS[layer.kind](o), layer.activation)
    return tensors.cast(result, "fp16") if widened else result


def _as_window(layer: NetworkLayer, weights: Array) -> Array:
    return weights.reshape(len(weights), *layer.input_shapes[0]) if layer.kind == "connected" else weights


def _check_halves(layer: NetworkLayer, weights: Floats) -> None:
    if (largest := float(np.abs(weights).max(initial=0))) > LARGEST_HALF:
        raise layer.error(
            f"has the weight {largest:.3g}, but fp16 holds 65504 at most",
            key="fp16",
            hint="Let this layer run in fp32 or int8.",
        )


def _in_int8(graph: OnnxGraph, layer: NetworkLayer, form: LayerFormat, tensors: Tensors) -> str:
    weights, bias = layer.filters
    scales = weight_scales(weights, bias, form.weight_scales)
    stored = _as_window(layer, quantised_weights(weights, scales))
    activation, left = layer.activation, None
    if form.output.channels is not None:
        grid, left = tensors.grid(layer.index, form.output)
        if left is not None and _takes_factors(activation, grid):
            # The ranges behind ReLU6 begin at zero and end at 6 or below, where int8 saturates by itself.
            activation = "relu" if activation == "relu6" else activation
            scales, bias, left = scales / left, bias / left, None
    o = Operation(graph=graph, layer=layer, inputs=(), precision="fp32")
    if form.dynamic:
        o = replace(o, inputs=(tensors.read(layer.inputs[0], "fp32"),))
        result = _with_measured_range(o, stored, scales, bias)
    else:
        result = _with_known_grid(o, form, tensors, stored, scales, bias)
    result = activated(o, result, activation)
    return result if left is None else tensors.scaled(result, np.reciprocal(left))


def _takes_factors(activation: str, grid: Grid) -> bool:
    """Whether the output's factors go into the weights before the activation, not behind it.

    Where channels have zero points of their own, a product behind the convolution keeps ONNX Runtime from
    fusing an int8 operator, which it could not run with them.
    """
    if isinstance(grid.zero_point, int):
        return activation in ("linear", "leaky", "relu", "relu6")
    return activation == "leaky"


def _with_known_grid(
    o: Operation, form: LayerFormat, tensors: Tensors, stored: Array, scales: Floats, bias: Floats
) -> str:
    """The form that runtimes turn into an int8 convolution, if int8 follows and they know the activation."""
    name = o.layer.tensor
    x, grid, factors = tensors.read_int8(o.layer.inputs[0], form.converted)
    if factors is not None:
        scales = scales * factors
    o = replace(
        o,
        inputs=(x,),
        weights=_dequantised(o.graph, stored, scales, f"{name}/weights"),
        bias=_dequantised_bias(o.graph, bias, scales * np.float32(grid.scale), f"{name}/bias"),
    )
    return KINDS[o.layer.kind](o)


def _dequantised(graph: OnnxGraph, stored: Array, scales: Floats, name: str) -> str:
    inputs = (
        graph.constant(stored, f"{name}/int8"),
        graph.constant(scales, f"{name}/scales"),
        graph.shared(np.zeros(len(scales), np.int8), f"zeros_{len(scales)}"),
    )
    real = graph.free_name(name)
    graph.node("DequantizeLinear", inputs, real, axis=0)
    return real


def _dequantised_bias(graph: OnnxGraph, bias: Floats, steps: Floats, name: str) -> str:
    inputs = (
        graph.constant(quantised_bias(bias, steps.astype(np.float64)), f"{name}/int32"),
        graph.constant(steps, f"{name}/scales"),
    )
    real = graph.free_name(name)
    graph.node("DequantizeLinear", inputs, real, axis=0)
    return real


def _with_measured_range(o: Operation, weights: Array, scales: Floats, bias: Floats) -> str:
    """An int8 convolution of an input whose range is measured at run time, as fp32."""
    from onnx import TensorProto

    name = o.layer.tensor
    x, scale, zero = (o.graph.free_name(f"{name}/input/{part}") for part in ("uint8", "scale", "zero_point"))
    o.graph.node("DynamicQuantizeLinear", o.inputs, x, scale, zero)
    constant = o.graph.constant(weights, f"{name}/weights")
    sums = o.emit("ConvInteger", x, constant, zero, **convolution_attributes(o))
    steps = o.emit("Mul", scale, o.numbers(scales.reshape(-1, 1, 1)))
    real = o.emit("Mul", o.emit("Cast", sums, to=TensorProto.FLOAT), steps)
    return o.emit("Add", real, o.numbers(bias.reshape(-1, 1, 1)))


def _on_int16_steps(o: Operation, form: LayerFormat) -> str:
    """The input as int16 holds it, in fp32: ONNX quantises to int16 from opset 21 on alone."""
    assert form.int16_scale is not None
    scale = o.numbers(form.int16_scale)
    steps = o.emit("Round", o.emit("Div", o.inputs[0], scale))
    return o.emit("Mul", o.emit("Clip", steps, o.numbers(-32768), o.numbers(32767)), scale)


def _on_int8_steps(layer: NetworkLayer, form: LayerFormat) -> Floats:
    """The weights as int8 holds them, in fp32."""
    weights, bias = layer.filters
    scales = weight_scales(weights, bias, form.weight_scales)
    shape = (-1, *[1] * (weights.ndim - 1))
    return quantised_weights(weights, scales).astype(np.float32) * scales.reshape(shape)
