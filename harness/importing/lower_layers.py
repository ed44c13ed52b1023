"""Sections of layers on images: convolutions, pools, padding, resizing; and of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.importing.graph import Array, Node, Shape
from harness.importing.quantised_weights import precision_of
from harness.importing.sections import Chw, Sections, axis_places, natural
from harness.importing.shapes import pools_padding

_PADS = ("pad_top", "pad_left", "pad_bottom", "pad_right")
Keys = list[tuple[str, object]]


def image(s: Sections, node: Node, name: str) -> Chw:
    """The shape of an operand that is an image."""
    shape = s.graph.shape(name)
    if len(shape) != 4 or shape[0] != 1:
        raise node.source.unsupported(f"it reads {shape[0] if shape else 0} images; one can be imported")
    return (shape[1], shape[2], shape[3])


def _pair(key: str, sizes: Sequence[int], default: int | None) -> Keys:
    """A size along both axes as one key, or as two; none where it is the default."""
    if sizes[0] == sizes[1]:
        return [] if sizes[0] == default else [(key, sizes[0])]
    return [(f"{key}_x", sizes[1]), (f"{key}_y", sizes[0])]


def _padding(sizes: Sequence[int]) -> Keys:
    return [(key, size) for key, size in zip(_PADS, sizes, strict=True) if size]


def _weights(s: Sections, node: Node) -> Array:
    value = s.graph.value(node.inputs[1])
    if value is None:
        raise node.source.unsupported("its weights are computed by the network")
    return value


def _bias(s: Sections, node: Node, filters: int) -> Array:
    if len(node.inputs) < 3:
        return np.zeros(filters, np.float32)
    value = s.graph.value(node.inputs[2])
    if value is None:
        raise node.source.unsupported("its biases are computed by the network")
    return np.broadcast_to(value.reshape(-1), (filters,))


def _convolution(s: Sections, node: Node) -> None:
    shape, weights = image(s, node, node.inputs[0]), _weights(s, node)
    filters, inner, *kernel = weights.shape
    groups = node.integer("group", 1)
    output = s.graph.shape(node.output)[1:]
    precision = precision_of(s, node, weights, 0)
    s.add(
        "convolutional",
        node,
        [s.place(node.inputs[0], shape)],
        (output[0], output[1], output[2]),
        ("filters", filters),
        *_pair("size", kernel, None),
        *_pair("stride", node.integers("strides"), 1),
        *_pair("dilation", node.integers("dilations"), 1),
        *_padding(node.integers("pads")),
        *([("groups", groups)] if groups > 1 else []),
        ("activation", node.text("activation", "linear")),
        *precision.keys,
        weights=[_bias(s, node, filters), precision.weights],
        weight_scales=precision.scales,
        multiply_adds=math.prod(output) * inner * math.prod(kernel),
    )


def _deconvolution(s: Sections, node: Node) -> None:
    shape, weights = image(s, node, node.inputs[0]), _weights(s, node)
    _, inner, *kernel = weights.shape
    groups = node.integer("group", 1)
    output = s.graph.shape(node.output)[1:]
    top, left, bottom, right = node.integers("pads")
    more = node.integers("output_padding")
    if min(top, left, bottom, right) < 0:
        raise node.source.unsupported("its padding is negative")
    s.add(
        "deconvolutional",
        node,
        [s.place(node.inputs[0], shape)],
        (output[0], output[1], output[2]),
        ("filters", inner * groups),
        *_pair("size", kernel, None),
        *_pair("stride", node.integers("strides"), 1),
        *_pair("dilation", node.integers("dilations"), 1),
        *_padding((top, left, bottom, right)),
        *[(key, size) for key, size in (("output_pad_y", more[0]), ("output_pad_x", more[1])) if size],
        *([("groups", groups)] if groups > 1 else []),
        ("activation", node.text("activation", "linear")),
        weights=[_bias(s, node, inner * groups), weights],
        multiply_adds=math.prod(shape) * inner * math.prod(kernel),
    )


def _linear(s: Sections, node: Node) -> None:
    weights = _weights(s, node)
    filters, inputs = weights.shape
    precision = precision_of(s, node, weights, 0)
    s.add(
        "connected",
        node,
        [s.place(node.inputs[0])],
        (filters, 1, 1),
        ("output", filters),
        ("activation", node.text("activation", "linear")),
        *precision.keys,
        weights=[_bias(s, node, filters), precision.weights],
        weight_scales=precision.scales,
        multiply_adds=filters * inputs,
    )


def _pool(s: Sections, node: Node) -> None:
    shape = image(s, node, node.inputs[0])
    output = s.graph.shape(node.output)[1:]
    kernel, strides, pads = (node.integers(key) for key in ("kernel", "strides", "pads"))
    average = node.op == "AveragePool"
    source = s.place(node.inputs[0], shape)
    if average and tuple(kernel) == shape[1:] and not any(pads) and output[1:] == (1, 1):
        s.add("avgpool", node, [source], (output[0], 1, 1))
        return
    dilations = node.integers("dilations") if "dilations" in node.attributes else (1, 1)
    if average and any(dilation > 1 for dilation in dilations):
        raise node.source.unsupported("average pools with a dilation are not supported")
    if not average and pools_padding(shape[1:], node.attributes):
        raise node.source.unsupported(
            "some of its windows lie wholly in its padding and have no largest value"
        )
    s.add(
        "pool",
        node,
        [source],
        (output[0], output[1], output[2]),
        ("type", "average" if average else "max"),
        *_pair("size", kernel, None),
        *_pair("stride", strides, None),
        *_pair("dilation", dilations, 1),
        *_padding(pads),
        *([("count_padding", 1)] if node.attributes.get("count_padding") else []),
    )


def _pad(s: Sections, node: Node) -> None:
    shape, pads = s.graph.shape(node.inputs[0]), node.integers("pads")
    rank, places = len(shape), axis_places(shape)
    padded = {
        axis: (pads[axis], pads[axis + rank]) for axis in range(rank) if pads[axis] or pads[axis + rank]
    }
    if any(min(sizes) < 0 for sizes in padded.values()):
        raise node.source.unsupported("its padding is negative")
    if places is None or any(axis not in places for axis in padded):
        raise node.source.unsupported(f"padding of the shape {shape}")
    names = (("pad_front", "pad_back"), ("pad_top", "pad_bottom"), ("pad_left", "pad_right"))
    keys: Keys = []
    for axis, sizes in padded.items():
        keys += [(key, size) for key, size in zip(names[places[axis]], sizes, strict=True) if size]
    mode = node.text("mode")
    if mode != "constant":
        keys.append(("mode", mode))
    elif node.number("value"):
        keys.append(("value", node.number("value")))
    s.add("pad", node, [s.place(node.inputs[0], natural(shape))], natural(s.graph.shape(node.output)), *keys)


def _resize(s: Sections, node: Node) -> None:
    shape = image(s, node, node.inputs[0])
    height, width = node.integers("sizes")
    output = (shape[0], height, width)
    source = s.place(node.inputs[0], shape)
    factor = repeated(node, shape)
    if factor:
        s.add("upsample", node, [source], output, ("stride", factor))
        return
    scale_y, scale_x = _scales(node)
    nearest = node.text("mode") == "nearest"
    keys: Keys = [("width", width), ("height", height), ("mode", node.text("mode"))]
    keys.append(("coordinates", node.text("coordinates")))
    if nearest:
        keys.append(("rounding", node.text("rounding")))
    if not math.isclose(scale_x, width / shape[2], rel_tol=1e-9):
        keys.append(("scale_x", scale_x))
    if not math.isclose(scale_y, height / shape[1], rel_tol=1e-9):
        keys.append(("scale_y", scale_y))
    s.add("resize", node, [source], output, *keys)


def _scales(node: Node) -> tuple[float, float]:
    scales = node.attributes["scales"]
    assert isinstance(scales, tuple)
    return float(scales[0]), float(scales[1])


def repeated(node: Node, shape: Shape) -> int:
    """The factor of a resize that repeats each pixel as often along both axes; 0 for any other."""
    sizes = node.integers("sizes")
    factor = sizes[0] // shape[1]
    if node.text("mode") != "nearest" or sizes != (shape[1] * factor, shape[2] * factor):
        return 0
    for size, wanted, scale in zip(shape[1:], sizes, _scales(node), strict=True):
        places = np.arange(wanted)
        if not np.array_equal(nearest_pixels(node, size, wanted, scale), places // factor):
            return 0
    return factor


def nearest_pixels(node: Node, size: int, wanted: int, scale: float) -> Array:
    """The pixel that each of the `wanted` new ones takes, of `size` along an axis."""
    places = np.arange(wanted, dtype=np.float64)
    found: Array
    match node.text("coordinates"):
        case "asymmetric":
            found = places / scale
        case "align_corners":
            found = places * ((size - 1) / max(wanted - 1, 1))
        case "pytorch_half_pixel" if wanted == 1:
            found = np.zeros(1)
        case _:
            found = (places + 0.5) / scale - 0.5
    rounded: Array
    match node.text("rounding"):
        case "floor":
            rounded = np.floor(found)
        case "ceil":
            rounded = np.ceil(found)
        case "round_prefer_ceil":
            rounded = np.floor(found + 0.5)
        case _:
            rounded = np.ceil(found - 0.5)
    return np.clip(rounded, 0, size - 1)


LAYERS: Mapping[str, Callable[[Sections, Node], None]] = {
    "AveragePool": _pool,
    "Conv": _convolution,
    "ConvTranspose": _deconvolution,
    "Linear": _linear,
    "MaxPool": _pool,
    "Pad": _pad,
    "Resize": _resize,
}
