"""Layers that move, repeat and join values, as ONNX."""

from __future__ import annotations

import math

import numpy as np

from harness.exporting.onnx_arithmetic import AXES, axis_of
from harness.exporting.onnx_operation import Operation
from harness.exporting.onnx_windows import every


def route(o: Operation) -> str:
    """Some channels of each input, or all of them, one behind the other."""
    groups, axis = o.layer.groups, axis_of(o)
    parts = list(o.inputs)
    if groups > 1:
        number = o.layer.section.integer("group_id", 0)
        for place, shape in enumerate(o.layer.input_shapes):
            size = shape[0] // groups
            parts[place] = _part(o, parts[place], 1, number * size, (number + 1) * size)
    return parts[0] if len(parts) == 1 else o.emit("Concat", *parts, axis=axis)


def slice_(o: Operation) -> str:
    axis = axis_of(o)
    size = o.layer.input_shapes[0][axis - 1]
    step = o.layer.section.integer("step", 1)
    begin = o.layer.section.integer("begin", 0 if step > 0 else size - 1)
    end = o.layer.section.integer("end", size if step > 0 else -1)
    if step < 2 or axis == AXES["channels"]:
        # A negative end counts from the back in ONNX.
        return _part(o, o.inputs[0], axis, begin, end if end >= 0 else -size - 1, step)
    part = o.inputs[0] if (begin, end) == (0, size) else _part(o, o.inputs[0], axis, begin, end)
    return every(o, part, *(step if axis == AXES[name] else 1 for name in ("height", "width")))


def crop(o: Operation) -> str:
    """The middle of the map, of which Darknet's values from 0 to 1 become -1 to 1."""
    _, height, width = o.layer.out
    x = o.inputs[0]
    for axis, wanted in ((2, height), (3, width)):
        size = o.layer.input_shapes[0][axis - 1]
        if wanted > size:
            raise o.layer.error(f"cuts {height}x{width} out of a smaller map")
        first = (size - wanted) // 2
        x = _part(o, x, axis, first, first + wanted)
    if o.layer.section.integer("noadjust", 0):
        return x
    return o.emit("Sub", o.emit("Mul", x, o.numbers(2.0)), o.numbers(1.0))


def _part(o: Operation, name: str, axis: int, begin: int, end: int, step: int = 1) -> str:
    return o.emit("Slice", name, *(o.sizes([value]) for value in (begin, end, axis, step)))


def reshape(o: Operation) -> str:
    if math.prod(o.layer.out) != math.prod(o.layer.input_shapes[0]):
        raise o.layer.error("has another number of values than its input")
    return o.reshape(o.inputs[0], 1, *o.layer.out)


def transpose(o: Operation) -> str:
    shape, out = o.layer.input_shapes[0], o.layer.out
    dims, axes = o.layer.section.integers("dims") or list(shape), o.layer.section.integers("axes")
    if sorted(axes) != list(range(len(dims))) or math.prod(dims) != math.prod(shape):
        raise o.layer.error("has axes= and dims= that do not fit its input", key="axes")
    x = o.inputs[0] if tuple(dims) == shape else o.reshape(o.inputs[0], 1, *dims)
    x = o.emit("Transpose", x, perm=[0, *(axis + 1 for axis in axes)])
    return x if tuple(dims[axis] for axis in axes) == out else o.reshape(x, 1, *out)


def reorg(o: Operation) -> str:
    """It reads the input's memory as channels / stride^2 maps, stride times as high and as wide.
    With `reverse` it writes its output so."""
    channels, height, width = o.layer.input_shapes[0]
    stride = max(o.layer.section.integer("stride", 1), 1)
    reverse = o.layer.section.integer("reverse", 0)
    if channels % stride**2 or not (reverse or height % stride == width % stride == 0):
        shape = "x".join(map(str, o.layer.input_shapes[0]))
        raise o.layer.error(f"has stride={stride}, which does not fit {shape}", key="stride")
    maps = channels // stride**2
    if reverse:
        x = o.reshape(o.inputs[0], 1, stride, stride, maps, height, width)
        x = o.emit("Transpose", x, perm=[0, 3, 4, 1, 5, 2])
    else:
        x = o.reshape(o.inputs[0], 1, maps, height, stride, width, stride)
        x = o.emit("Transpose", x, perm=[0, 3, 5, 1, 2, 4])
    return o.reshape(x, 1, *o.layer.out)


def pad(o: Operation) -> str:
    section = o.layer.section
    mode = section.word("mode") or "constant"
    if mode not in ("constant", "reflect", "edge"):
        raise o.layer.error(f"has mode={mode}, which cannot be exported", key="mode")
    before, after = (
        [section.integer(f"pad_{side}", 0) for side in sides]
        for sides in (("front", "top", "left"), ("back", "bottom", "right"))
    )
    value = [o.numbers(section.real("value", 0.0))] if mode == "constant" else []
    return o.emit("Pad", o.inputs[0], o.sizes([0, *before, 0, *after]), *value, mode=mode)


def upsample(o: Operation) -> str:
    section = o.layer.section
    x = _resized(o, mode="nearest", coordinates="asymmetric", rounding="floor")
    scale = section.real("scale", 1.0)
    return x if scale == 1 else o.emit("Mul", x, o.numbers(scale))


def resize(o: Operation) -> str:
    section = o.layer.section
    return _resized(
        o,
        mode=section.word("mode") or "nearest",
        coordinates=section.word("coordinates") or "half_pixel",
        rounding=section.word("rounding") or "round_prefer_floor",
    )


def _resized(o: Operation, *, mode: str, coordinates: str, rounding: str) -> str:
    """By the sizes; by scales where the cfg has some of its own, or both sizes are multiples."""
    section, shape, out = o.layer.section, o.layer.input_shapes[0], o.layer.out
    ratios = [wanted / size for wanted, size in zip(out[1:], shape[1:], strict=True)]
    scales = [section.real(f"scale_{axis}", ratio) for axis, ratio in zip("yx", ratios, strict=True)]
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = rounding
    exact = all(scale.is_integer() for scale in scales)
    if (exact or scales != ratios) and [int(s * x) for s, x in zip(scales, shape[1:], strict=True)] == [
        *out[1:]
    ]:
        factors = o.graph.shared(np.array([1, 1, *scales], np.float32), "scales")
        return o.emit("Resize", o.inputs[0], "", factors, **attributes)
    return o.emit("Resize", o.inputs[0], "", "", o.sizes([1, *out]), **attributes)
