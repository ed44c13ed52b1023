"""Layers that compute value by value, over axes, or as a product of their inputs, as ONNX."""

from __future__ import annotations

import math

from harness.config.layer_shapes import Shape
from harness.exporting.onnx_operation import Operation
from harness.exporting.onnx_windows import every

AXES = {"channels": 1, "height": 2, "width": 3}


def pairwise(o: Operation, operator: str) -> str:
    """((a o b) o c) ..."""
    result = o.inputs[0]
    for other in o.inputs[1:]:
        result = o.emit(operator, result, other)
    return result


def shortcut(o: Operation) -> str:
    """A sum, of the first input's size."""
    result = o.inputs[0]
    for name, shape in zip(o.inputs[1:], o.layer.input_shapes[1:], strict=True):
        if shape != o.layer.out:
            name = _fitted(o, name, shape)
        if shape[0] >= o.layer.channels:
            result = o.emit("Add", result, name)
            continue
        # Other channels stay as they are. Runtimes that know no padding along channels have slices and joins.
        changed, kept = (
            o.emit("Slice", result, *(o.sizes([value]) for value in (begin, end, 1, 1)))
            for begin, end in ((0, shape[0]), (shape[0], o.layer.channels))
        )
        result = o.emit("Concat", o.emit("Add", changed, name), kept, axis=1)
    return result


def _fitted(o: Operation, name: str, shape: Shape) -> str:
    """A map of another size as pjreddie's Darknet adds it, in the channels that both have: of a larger one
    every stride-th value, those of a smaller one at every sample-th place, and zeros at other places."""
    out = o.layer.out
    stride, sample = max(shape[2] // out[2], 1), max(out[2] // shape[2], 1)
    if max(shape[1] // out[1], 1) != stride or max(out[1] // shape[1], 1) != sample:
        raise o.layer.error(f"adds {_text(shape)} to {_text(out)}, which does not fit", key="from")
    channels = min(shape[0], out[0])
    taken = [
        min(-(-size // stride), -(-wide // sample)) for size, wide in zip(shape[1:], out[1:], strict=True)
    ]
    ends = (channels, *(stride * count for count in taken))
    if any(end < size for end, size in zip(ends, shape, strict=True)):
        name = o.emit(
            "Slice", name, o.sizes([0, 0, 0]), o.sizes(ends), o.sizes([1, 2, 3]), o.sizes([1, 1, 1])
        )
    if stride > 1:
        name = every(o, name, stride, stride)
    if sample > 1:
        name = o.reshape(name, 1, channels, taken[0], 1, taken[1], 1)
        name = o.emit("Pad", name, o.sizes([0] * 9 + [sample - 1, 0, sample - 1]))
        name = o.reshape(name, 1, channels, taken[0] * sample, taken[1] * sample)
    after = [size - sample * count for size, count in zip(out[1:], taken, strict=True)]
    # What is too much behind the last value is cut by negative padding.
    return o.emit("Pad", name, o.sizes([0] * 6 + after)) if any(after) else name


def scale_channels(o: Operation) -> str:
    if len(o.inputs) != 2:
        raise o.layer.error("needs one layer in from=", key="from")
    factors, values = o.inputs
    return o.emit("Mul", values, factors)


def prelu(o: Operation) -> str:
    assert o.layer.weights is not None
    return o.emit("PRelu", o.inputs[0], o.numbers(o.layer.weights.reshape(-1, 1, 1)))


def reduce(o: Operation) -> str:
    section = o.layer.section
    axes = _axes_of(o)
    operators = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}
    operator = (operators | {"l2": "ReduceL2"}).get(section.word("type") or "mean")
    if operator is None:
        raise o.layer.error(f"has type={section.word('type')}, which cannot be exported", key="type")
    if operator == "ReduceSum":
        return o.emit(operator, o.inputs[0], o.sizes(axes), keepdims=1)
    return o.emit(operator, o.inputs[0], axes=axes, keepdims=1)


def layer_norm(o: Operation) -> str:
    """Spelt out: ONNX's own operator is of opset 17, and along the last axes only."""
    axes = _axes_of(o)
    epsilon = o.layer.section.real("epsilon", 1e-5)
    if not 0 <= epsilon < math.inf:
        raise o.layer.error(f"has epsilon={epsilon:g}, which must not be below 0", key="epsilon")
    centred = o.emit("Sub", o.inputs[0], o.emit("ReduceMean", o.inputs[0], axes=axes, keepdims=1))
    squares = o.emit("Mul", centred, centred)
    variance = o.emit("ReduceMean", squares, axes=axes, keepdims=1)
    return o.emit("Div", centred, o.emit("Sqrt", o.emit("Add", variance, o.numbers(epsilon))))


def softmax(o: Operation) -> str:
    """Along an axis or, as in Darknet, in groups of all values."""
    section = o.layer.section
    (x,) = o.inputs
    if "axis" in section.options:
        return o.emit("Softmax", x, axis=axis_of(o))
    temperature = section.real("temperature", 1.0)
    if temperature != 1:
        x = o.emit("Div", x, o.numbers(temperature))
    values = math.prod(o.layer.out)
    if o.layer.groups == 1 and values == o.layer.channels:
        return o.emit("Softmax", x, axis=1)
    lines = o.emit("Softmax", o.reshape(x, 1, o.layer.groups, values // o.layer.groups), axis=2)
    return o.reshape(lines, 1, *o.layer.out)


def axis_of(o: Operation) -> int:
    """The axis that axis= names."""
    word = o.layer.section.word("axis") or "channels"
    if word not in AXES:
        raise o.layer.error(f"has axis={word}; expected channels, height or width", key="axis")
    return AXES[word]


def _axes_of(o: Operation) -> list[int]:
    """The axes that axes= names."""
    words = [word for word in o.layer.section.word("axes").split(",") if word]
    if not words or not set(words) <= set(AXES):
        raise o.layer.error(f"has axes={','.join(words)}; expected channels, height, width", key="axes")
    return sorted({AXES[word] for word in words})


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))
