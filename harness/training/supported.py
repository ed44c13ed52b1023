"""Which networks can be trained: those whose layers `emulation.py` computes."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import ConfigurationError
from harness.exporting.layer import NetworkLayer
from harness.exporting.network import Network
from harness.training.activation_lines import LINED

FOLDED = ("linear", "leaky", "relu", "relu6")  # activations that int8 layers compute in steps of the output
_MOVING = ("maxpool", "route", "upsample", "reshape", "transpose", "slice", "dropout", "cost")
_PAIRWISE = ("shortcut", "add", "sub", "mul", "div", "minimum", "maximum")
_ACTIVATED = ("convolutional", *_PAIRWISE, "scale_channels", "activation")
_KINDS = (*_ACTIVATED, *_MOVING, "pool", "avgpool", "resize", "softmax", "constant")


def check_supported(network: Network) -> None:
    """Raises ConfigurationError for a layer that cannot be trained, and if nothing is to be learned."""
    for layer in network.needed():
        for reason in _reasons(layer):
            raise layer.error(f"cannot be trained: {reason}", hint="`harness repair` may take the network.")
    if all(layer.precision in ("", "fp32") for layer in network.needed() if layer.weighted):
        raise ConfigurationError(
            f"{network.file}: all layers are in fp32, which loses nothing",
            hint="Name the precisions to train for with --policy, for example --policy int8.",
        )


def _reasons(layer: NetworkLayer) -> Iterator[str]:
    if layer.kind not in _KINDS:
        yield f"training knows the kinds {', '.join(_KINDS)}"
    if layer.kind in _ACTIVATED and layer.activation not in (*FOLDED, *LINED):
        yield f"training does not know activation={layer.activation}"
    if layer.precision == "int16":
        yield "it is int16"
    match layer.kind:
        case "convolutional" if layer.groups > 1 and layer.groups == layer.input_shapes[0][0]:
            rows, columns = layer.window
            if rows.stride != columns.stride or (rows.stride > 1 and rows.dilation > 1):
                yield "TensorFlow's depthwise convolution has one stride, and no dilation beside it"
        case "shortcut" if len({*layer.input_shapes, layer.out}) > 1:
            yield "its maps have different sizes"
        case "activation" if {"alpha", "beta"} & layer.section.options.keys():
            yield "it has alpha= or beta="
        case "pool" if max(axis.dilation for axis in layer.window) > 1:
            yield "it has dilation="
        case "softmax" if "axis" not in layer.section.options:
            yield "it has no axis="
        case "upsample" if layer.section.real("scale", 1.0) != 1:
            yield "it has scale="
        case "scale_channels" if layer.input_shapes[0][1:] != (1, 1):
            yield "its factors are single pixels'"
