"""The kinds of layers with the functions that write them as ONNX.

onnx_writer.py knows those that compute nothing: [dropout], [cost], [yolo], [region], [constant] and [input].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.exporting import onnx_arithmetic as arithmetic
from harness.exporting import onnx_shapes as shapes
from harness.exporting import onnx_windows as windows
from harness.exporting.onnx_activations import activation_layer
from harness.exporting.onnx_operation import Operation

Writer = Callable[[Operation], str]


def _operator(name: str) -> Writer:
    return lambda o: o.emit(name, *o.inputs)


def _pairwise(name: str) -> Writer:
    return lambda o: arithmetic.pairwise(o, name)


KINDS: Mapping[str, Writer] = {
    "abs": _operator("Abs"),
    "activation": activation_layer,
    "add": _pairwise("Add"),
    "avgpool": _operator("GlobalAveragePool"),
    "connected": windows.convolution,
    "convolutional": windows.convolution,
    "crop": shapes.crop,
    "deconvolutional": windows.deconvolution,
    "div": _pairwise("Div"),
    "exp": _operator("Exp"),
    "layer_norm": arithmetic.layer_norm,
    "matmul": _operator("MatMul"),
    "maximum": _pairwise("Max"),
    "maxpool": windows.pool,
    "minimum": _pairwise("Min"),
    "mul": _pairwise("Mul"),
    "neg": _operator("Neg"),
    "pad": shapes.pad,
    "pool": windows.pool,
    "prelu": arithmetic.prelu,
    "reduce": arithmetic.reduce,
    "reorg": shapes.reorg,
    "reshape": shapes.reshape,
    "resize": shapes.resize,
    "route": shapes.route,
    "scale_channels": arithmetic.scale_channels,
    "shortcut": arithmetic.shortcut,
    "slice": shapes.slice_,
    "softmax": arithmetic.softmax,
    "sqrt": _operator("Sqrt"),
    "sub": _pairwise("Sub"),
    "transpose": shapes.transpose,
    "upsample": shapes.upsample,
}
