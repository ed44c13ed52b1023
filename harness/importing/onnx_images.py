"""ONNX's operators on images: convolutions, pools and resizing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.importing.graph import Attribute
from harness.importing.onnx_operator import Operator

_ACTIVATIONS = {"Relu": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "HardSwish": "HardSwish"}
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def convolution(o: Operator, image: str, weights: str, bias: str | None) -> str:
    """A convolution by the node's attributes; of one axis as one over rows of height 1."""
    shape, kernel = o.builder.shape(image), o.builder.shape(weights)[2:]
    if len(shape) == 3 and len(kernel) == 1:
        image = o.builder.reshape(image, (*shape[:2], 1, shape[2]))
        weights = o.builder.reshape(weights, (*o.builder.shape(weights)[:2], 1, kernel[0]))
    elif len(shape) != 4 or len(kernel) != 2:
        raise o.unsupported(f"convolutions over {len(shape) - 2} axes are not supported")
    found = o.builder.emit(
        "Conv",
        image,
        weights,
        *([bias] if bias else []),
        group=o.integer("group", 1),
        **_geometry(o, o.builder.shape(image)[2:], o.builder.shape(weights)[2:]),
    )
    sizes = o.builder.shape(found)
    return found if len(shape) == 4 else o.builder.reshape(found, (sizes[0], sizes[1], sizes[3]))


def _geometry(o: Operator, image: Sequence[int], kernel: Sequence[int]) -> dict[str, Attribute]:
    """Strides, dilations and paddings: top, left, bottom, right."""
    strides, dilations = _both(o, "strides", 1), _both(o, "dilations", 1)
    automatic = o.text("auto_pad", "NOTSET")
    given = o.integers("pads", (0,) * 4)
    if len(given) == 2:
        given = (0, given[0], 0, given[1])
    if len(given) != 4:
        raise o.unsupported(f"it has {len(given)} paddings")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, extent, step, spread in zip(image, kernel, strides, dilations, strict=True):
            number = -(-size // max(step, 1))
            total = max((number - 1) * step + (extent - 1) * spread + 1 - size, 0)
            small, large = total // 2, total - total // 2
            before.append(small if automatic == "SAME_UPPER" else large)
            after.append(large if automatic == "SAME_UPPER" else small)
        given = (*before, *after)
    elif automatic == "VALID":
        given = (0, 0, 0, 0)
    if min(given) < 0:
        raise o.unsupported("its padding is negative")
    return {"strides": strides, "dilations": dilations, "pads": given}


def _both(o: Operator, name: str, default: int) -> tuple[int, int]:
    found = o.integers(name) or (default, default)
    if len(found) == 1:
        return default, found[0]
    if len(found) != 2:
        raise o.unsupported(f"its {name} are {len(found)} numbers")
    return found[0], found[1]


def _convolution(o: Operator) -> list[str]:
    found = convolution(o, o.input(0), o.input(1), o.input(2) if o.has(2) else None)
    if o.has(3):
        found = o.builder.emit("Add", found, o.input(3))
    word = o.text("activation")
    if word:  # of com.microsoft's FusedConv
        found = _fused(o, word, found)
    return [found]


def _fused(o: Operator, word: str, name: str) -> str:
    numbers = o.numbers("activation_params")
    if word == "LeakyRelu" and numbers:
        return o.builder.emit("LeakyRelu", name, alpha=numbers[0])
    if word == "Clip" and len(numbers) == 2:
        return o.builder.emit("Clip", name, min=numbers[0], max=numbers[1])
    if word == "HardSigmoid" and len(numbers) == 2:
        return o.builder.emit("HardSigmoid", name, alpha=numbers[0], beta=numbers[1])
    if word not in _ACTIVATIONS:
        raise o.unsupported(f"the fused activation {word} is not supported")
    return o.builder.emit(_ACTIVATIONS[word], name)


def _deconvolution(o: Operator) -> list[str]:
    image, weights = o.input(0), o.input(1)
    if o.rank(0) != 4 or o.rank(1) != 4:
        raise o.unsupported(f"transposed convolutions over {o.rank() - 2} axes are not supported")
    kernel, sizes = o.builder.shape(weights)[2:], o.builder.shape(image)[2:]
    strides, dilations = _both(o, "strides", 1), _both(o, "dilations", 1)
    more = _both(o, "output_padding", 0)
    pads = list(o.integers("pads", (0,) * 4))
    wanted = o.integers("output_shape")
    automatic = o.text("auto_pad", "NOTSET")
    if automatic.startswith("SAME") and not wanted:
        wanted = tuple(size * step for size, step in zip(sizes, strides, strict=True))
    for axis, size in enumerate(wanted[-2:]):
        full = (sizes[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 + more[axis]
        total = max(full - size, 0)
        lower = automatic == "SAME_LOWER"
        pads[axis] = total - total // 2 if lower else total // 2
        pads[axis + 2] = total - pads[axis]
    bias = [o.input(2)] if o.has(2) else []
    return [
        o.builder.emit(
            "ConvTranspose",
            image,
            weights,
            *bias,
            group=o.integer("group", 1),
            strides=strides,
            dilations=dilations,
            pads=tuple(pads),
            output_padding=more,
        )
    ]


def _pool(op: str) -> Callable[[Operator], Sequence[str]]:
    def translate(o: Operator) -> list[str]:
        return [pool(o, op, o.input(0))]

    return translate


def pool(o: Operator, op: str, image: str) -> str:
    """A pool by the node's attributes."""
    if len(o.node.output) > 1 and o.node.output[1]:
        raise o.unsupported("the places of its largest values are not supported")
    shape = o.builder.shape(image)
    if len(shape) == 3:
        image = o.builder.reshape(image, (*shape[:2], 1, shape[2]))
    kernel = o.integers("kernel_shape")
    kernel = (1, *kernel) if len(kernel) == 1 else kernel
    if len(kernel) != 2 or len(o.builder.shape(image)) != 4:
        raise o.unsupported(f"pools over {len(shape) - 2} axes are not supported")
    attributes = {"kernel": kernel, **_geometry(o, o.builder.shape(image)[2:], kernel)}
    if op == "AveragePool" and attributes["dilations"] == (1, 1):
        del attributes["dilations"]
    count = bool(o.integer("count_include_pad"))
    found = o.builder.pool(op, image, attributes, ceil=bool(o.integer("ceil_mode")), count_padding=count)
    sizes = o.builder.shape(found)
    return found if len(shape) == 4 else o.builder.reshape(found, (sizes[0], sizes[1], sizes[3]))


def _global(op: str) -> Callable[[Operator], Sequence[str]]:
    return lambda o: [o.builder.emit(op, o.input(0), axes=tuple(range(2, o.rank())))]


def _resize(o: Operator) -> list[str]:
    """Resize of opset 10 and of 11 and newer, and Upsample."""
    image = o.input(0)
    shape = o.builder.shape(image)
    old = o.node.op_type == "Upsample" or o.opset < 11
    scales = _numbers(o, 1 if old else 2) or (o.numbers("scales") if old else ())
    sizes = () if old or not o.has(3) else o.builder.integers(o.input(3), "the new size")
    axes = [o.builder.axis(axis, len(shape)) for axis in o.integers("axes")] or list(range(len(shape)))
    if len(shape) != 4 or len(scales or sizes) != len(axes):
        raise o.unsupported(f"a tensor of the shape {shape} is resized")
    if o.integer("antialias") or o.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise o.unsupported("antialiasing and kept aspect ratios are not supported")
    wanted, factors = list(shape), [1.0] * 4
    for place, axis in enumerate(axes):
        wanted[axis] = int(shape[axis] * scales[place]) if scales else sizes[place]
        factors[axis] = scales[place] if scales else sizes[place] / shape[axis]
    if wanted[:2] != list(shape[:2]):
        raise o.unsupported("channels are resized")
    mode = o.text("mode", "nearest")
    # Before opset 11: x / scale, rounded down.
    coordinates = "asymmetric" if old else o.text("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else o.text("nearest_mode", "round_prefer_floor")
    if mode not in ("nearest", "linear") or coordinates not in _COORDINATES or rounding not in _ROUNDINGS:
        raise o.unsupported(f"the mode {mode} with {coordinates} is not supported")
    return [
        o.builder.emit(
            "Resize",
            image,
            sizes=tuple(wanted[2:]),
            scales=tuple(factors[2:]),
            mode=mode,
            coordinates=coordinates,
            rounding=rounding,
        )
    ]


def _numbers(o: Operator, number: int) -> tuple[float, ...]:
    if not o.has(number):
        return ()
    return tuple(float(value) for value in o.builder.value(o.input(number), "the scale").reshape(-1))


def _depth_to_space(o: Operator) -> list[str]:
    columns_first = o.text("mode", "DCR") == "CRD"
    return [o.builder.depth_to_space(o.input(0), o.integer("blocksize", 1), columns_first=columns_first)]


def _space_to_depth(o: Operator) -> list[str]:
    return [o.builder.space_to_depth(o.input(0), o.integer("blocksize", 1))]


IMAGE_OPERATORS: Mapping[str, Callable[[Operator], Sequence[str]]] = {
    "AveragePool": _pool("AveragePool"),
    "Conv": _convolution,
    "ConvTranspose": _deconvolution,
    "DepthToSpace": _depth_to_space,
    "FusedConv": _convolution,
    "GlobalAveragePool": _global("ReduceMean"),
    "GlobalMaxPool": _global("ReduceMax"),
    "MaxPool": _pool("MaxPool"),
    "Resize": _resize,
    "SpaceToDepth": _space_to_depth,
    "Upsample": _resize,
}
