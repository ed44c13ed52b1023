"""TensorFlow Lite's operators on images: their channels come last, those of the neutral graph first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.importing.graph import Attribute
from harness.importing.tflite_operator import TO_FIRST, Operator


def _convolution(o: Operator, *, depthwise: bool) -> list[str]:
    image, weights = o.first(o.input(0)), o.input(1)
    o.builder.value(weights, "the weights")
    channels, shape = o.builder.shape(image)[1], o.builder.shape(weights)
    if len(shape) != 4:
        raise o.builder.source.unsupported(f"its weights have the shape {shape}")
    # [1, y, x, filters] of depthwise ones, [filters, y, x, channels] of others.
    weights = o.builder.transpose(weights, (3, 0, 1, 2) if depthwise else TO_FIRST)
    groups = channels if depthwise else channels // max(shape[3], 1)
    kernel, strides = (shape[1], shape[2]), (int(o.option("StrideH", 1)), int(o.option("StrideW", 1)))
    dilations = (int(o.option("DilationHFactor", 1)), int(o.option("DilationWFactor", 1)))
    pads = o.pads(o.builder.shape(image), kernel, strides, dilations)
    if o.dilation is not None:
        dilations = (o.dilation["dilations"][0], o.dilation["dilations"][1])
        pads = o.dilation["pads"]
    bias = [o.input(2)] if o.has(2) else []
    found = o.builder.emit(
        "Conv", image, weights, *bias, group=groups, strides=strides, dilations=dilations, pads=pads
    )
    return [o.last(o.activated(found))]


def _transposed_convolution(o: Operator) -> list[str]:
    image, weights = o.first(o.input(2)), o.input(1)
    o.builder.value(weights, "the weights")
    _, height, width, _ = o.integers(0, "the output's shape")
    weights = o.builder.transpose(weights, (3, 0, 1, 2))  # [filters, y, x, channels]
    kernel, strides = o.builder.shape(weights)[2:], (int(o.option("StrideH")), int(o.option("StrideW")))
    # The padding is that of the convolution from the output's size to the input's.
    top, left, bottom, right = o.pads(
        (1, 1, height, width), (kernel[0], kernel[1]), (strides[0], strides[1]), (1, 1)
    )
    sizes = o.builder.shape(image)[2:]
    more = [
        wanted - ((size - 1) * step + extent - before - after)
        for wanted, size, step, extent, before, after in zip(
            (height, width), sizes, strides, kernel, (top, left), (bottom, right), strict=True
        )
    ]
    bottom, right = bottom - min(more[0], 0), right - min(more[1], 0)
    attributes: dict[str, Attribute] = {
        "group": 1,
        "strides": strides,
        "dilations": (1, 1),
        "pads": (top, left, bottom, right),
        "output_padding": (max(more[0], 0), max(more[1], 0)),
    }
    bias = [o.input(3)] if o.has(3) else []
    return [o.last(o.activated(o.builder.emit("ConvTranspose", image, weights, *bias, **attributes)))]


def _pool(op: str) -> Callable[[Operator], Sequence[str]]:
    def translate(o: Operator) -> list[str]:
        image = o.first(o.input(0))
        kernel = (int(o.option("FilterHeight", 1)), int(o.option("FilterWidth", 1)))
        strides = (int(o.option("StrideH", 1)), int(o.option("StrideW", 1)))
        pads = o.pads(o.builder.shape(image), kernel, strides, (1, 1))
        attributes: dict[str, Attribute] = {"kernel": kernel, "strides": strides, "pads": pads}
        found = o.builder.pool(op, image, attributes, ceil=False, count_padding=False)
        return [o.last(o.activated(found))]

    return translate


def _resize(mode: str) -> Callable[[Operator], Sequence[str]]:
    def translate(o: Operator) -> list[str]:
        image = o.first(o.input(0))
        sizes = o.integers(1, "the new size")
        before = o.builder.shape(image)[2:]
        corners, centres = bool(o.option("AlignCorners")), bool(o.option("HalfPixelCenters"))
        coordinates = "align_corners" if corners else "half_pixel" if centres else "asymmetric"
        # The nearest pixel: floor(x * scale), with half centres floor((x + 0.5) * scale), and with aligned
        # corners the rounded one.
        rounding = "round_prefer_ceil" if corners or centres else "floor"
        attributes: dict[str, Attribute] = {
            "sizes": (sizes[0], sizes[1]),
            "scales": (sizes[0] / before[0], sizes[1] / before[1]),
            "mode": mode,
            "coordinates": coordinates,
            "rounding": rounding,
        }
        return [o.last(o.builder.emit("Resize", image, **attributes))]

    return translate


def _depth_to_space(o: Operator) -> list[str]:
    image = o.first(o.input(0))
    return [o.last(o.builder.depth_to_space(image, int(o.option("BlockSize", 1)), columns_first=False))]


def _space_to_depth(o: Operator) -> list[str]:
    image = o.first(o.input(0))
    return [o.last(o.builder.space_to_depth(image, int(o.option("BlockSize", 1))))]


IMAGE_OPERATORS: Mapping[str, Callable[[Operator], Sequence[str]]] = {
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "CONV_2D": lambda o: _convolution(o, depthwise=False),
    "DEPTHWISE_CONV_2D": lambda o: _convolution(o, depthwise=True),
    "DEPTH_TO_SPACE": _depth_to_space,
    "MAX_POOL_2D": _pool("MaxPool"),
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "SPACE_TO_DEPTH": _space_to_depth,
    "TRANSPOSE_CONV": _transposed_convolution,
}
