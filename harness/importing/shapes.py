"""The shape of each neutral operator's output.

A function of this module raises ValueError, with the reason, for inputs that the operator cannot have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Attributes = Mapping[str, Any]

UNARY = frozenset(
    [
        "Abs",
        "Clip",
        "Elu",
        "Erf",
        "Exp",
        "Gelu",
        "GeluTanh",
        "HardMish",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "PRelu",
        "Relu",
        "Relu6",
        "Requantize",
        "Selu",
        "Sigmoid",
        "Silu",
        "Softplus",
        "Sqrt",
        "Tanh",
    ]
)
BINARY = frozenset(["Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"])
REDUCTIONS = frozenset(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"])


def output_shape(op: str, shapes: Shapes, attributes: Attributes) -> Shape:
    """The output's shape of an operator, by its inputs' shapes."""
    if op in UNARY:
        return shapes[0]
    if op in BINARY:
        return broadcast(shapes)
    if op in REDUCTIONS:
        axes = attributes["axes"]
        _check_axes(axes, shapes[0])
        return tuple(1 if axis in axes else size for axis, size in enumerate(shapes[0]))
    shape = _RULES[op](shapes, attributes)
    if any(size < 1 for size in shape):
        raise ValueError(f"its output would be {'x'.join(map(str, shape))}")
    return shape


def broadcast(shapes: Shapes) -> Shape:
    """The common shape of tensors that are combined element by element."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    found = []
    for sizes in zip(*padded, strict=True):
        different = {size for size in sizes if size != 1}
        if len(different) > 1:
            raise ValueError(
                f"shapes {' and '.join('x'.join(map(str, shape)) for shape in shapes)} do not fit"
            )
        found.append(different.pop() if different else 1)
    return tuple(found)


def windows(size: int, kernel: int, stride: int, before: int, after: int, dilation: int) -> int:
    """The number of places of a window along an axis."""
    if kernel < 1 or stride < 1 or dilation < 1:
        raise ValueError(f"kernel {kernel}, stride {stride} and dilation {dilation} must be positive")
    return (size + before + after - ((kernel - 1) * dilation + 1)) // stride + 1


def pools_padding(image: Sequence[int], attributes: Attributes) -> bool:
    """Whether a window of a pool lies wholly in the padding of the height or width of `image`. A dilation
    larger than the image counts as such: the window's elements may step over it."""
    top, left, bottom, right = attributes["pads"]
    dilations = attributes.get("dilations", (1, 1))
    axes = zip(image, attributes["kernel"], attributes["strides"], dilations, strict=True)
    for (size, kernel, stride, dilation), (before, after) in zip(
        axes, ((top, bottom), (left, right)), strict=True
    ):
        last = (windows(size, kernel, stride, before, after, dilation) - 1) * stride - before
        if before > (kernel - 1) * dilation or last >= size or (dilation > size and before + after > 0):
            return True
    return False


def _check_axes(axes: Sequence[int], shape: Shape) -> None:
    if any(not 0 <= axis < len(shape) for axis in axes):
        raise ValueError(f"axes {tuple(axes)} of a tensor with {len(shape)} axes")


def _image(shape: Shape) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ValueError(f"its input has {len(shape)} axes, not 4")
    return (shape[0], shape[1], shape[2], shape[3])


def _convolution(shapes: Shapes, attributes: Attributes) -> Shape:
    batch, channels, height, width = _image(shapes[0])
    filters, inner, kernel_y, kernel_x = _image(shapes[1])
    groups = attributes["group"]
    if groups < 1 or inner * groups != channels or filters % groups:
        raise ValueError(f"{filters} filters of {inner} channels in {groups} groups on {channels} channels")
    if len(shapes) > 2 and math.prod(shapes[2]) != filters:
        raise ValueError(f"{math.prod(shapes[2])} biases for {filters} filters")
    top, left, bottom, right = attributes["pads"]
    (step_y, step_x), (dilation_y, dilation_x) = attributes["strides"], attributes["dilations"]
    return (
        batch,
        filters,
        windows(height, kernel_y, step_y, top, bottom, dilation_y),
        windows(width, kernel_x, step_x, left, right, dilation_x),
    )


def _deconvolution(shapes: Shapes, attributes: Attributes) -> Shape:
    batch, channels, height, width = _image(shapes[0])
    filters, inner, kernel_y, kernel_x = _image(shapes[1])
    groups = attributes["group"]
    if groups < 1 or filters != channels or channels % groups:
        raise ValueError(f"weights for {filters} channels in {groups} groups on {channels} channels")
    top, left, bottom, right = attributes["pads"]
    (step_y, step_x), (dilation_y, dilation_x) = attributes["strides"], attributes["dilations"]
    more_y, more_x = attributes["output_padding"]
    return (
        batch,
        inner * groups,
        (height - 1) * step_y + (kernel_y - 1) * dilation_y + 1 + more_y - top - bottom,
        (width - 1) * step_x + (kernel_x - 1) * dilation_x + 1 + more_x - left - right,
    )


def _pool(shapes: Shapes, attributes: Attributes) -> Shape:
    batch, channels, height, width = _image(shapes[0])
    top, left, bottom, right = attributes["pads"]
    (kernel_y, kernel_x), (step_y, step_x) = attributes["kernel"], attributes["strides"]
    dilation_y, dilation_x = attributes.get("dilations", (1, 1))
    return (
        batch,
        channels,
        windows(height, kernel_y, step_y, top, bottom, dilation_y),
        windows(width, kernel_x, step_x, left, right, dilation_x),
    )


def _linear(shapes: Shapes, _: Attributes) -> Shape:
    outputs, inputs = shapes[1]
    if shapes[0][-1] != inputs:
        raise ValueError(f"weights for {inputs} inputs on {shapes[0][-1]}")
    return (*shapes[0][:-1], outputs)


def _matmul(shapes: Shapes, _: Attributes) -> Shape:
    first, second = shapes
    if len(first) < 2 or len(second) < 2 or first[-1] != second[-2]:
        raise ValueError(f"shapes {first} and {second} do not fit")
    return (*broadcast((first[:-2], second[:-2])), first[-2], second[-1])


def _concat(shapes: Shapes, attributes: Attributes) -> Shape:
    axis = attributes["axis"]
    _check_axes((axis,), shapes[0])
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(others) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise ValueError(f"shapes {', '.join(map(str, shapes))} do not fit")
    total = sum(shape[axis] for shape in shapes)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _slice(shapes: Shapes, attributes: Attributes) -> Shape:
    axis, begin, end, step = (attributes[key] for key in ("axis", "begin", "end", "step"))
    _check_axes((axis,), shapes[0])
    size = len(range(begin, end, step)) if step > 0 else len(range(end - 1, begin - 1, step))
    if not 0 <= begin < end <= shapes[0][axis]:
        raise ValueError(f"a slice from {begin} to {end} of {shapes[0][axis]}")
    return (*shapes[0][:axis], size, *shapes[0][axis + 1 :])


def _reshape(shapes: Shapes, attributes: Attributes) -> Shape:
    wanted = tuple(int(size) for size in attributes["shape"])
    if math.prod(wanted) != math.prod(shapes[0]):
        raise ValueError(f"{shapes[0]} has not as many elements as {wanted}")
    return wanted


def _transpose(shapes: Shapes, attributes: Attributes) -> Shape:
    order = attributes["perm"]
    if sorted(order) != list(range(len(shapes[0]))):
        raise ValueError(f"the order {order} of a tensor with {len(shapes[0])} axes")
    return tuple(shapes[0][axis] for axis in order)


def _pad(shapes: Shapes, attributes: Attributes) -> Shape:
    pads, rank = attributes["pads"], len(shapes[0])
    if len(pads) != 2 * rank:
        raise ValueError(f"{len(pads)} paddings for {rank} axes")
    return tuple(size + pads[axis] + pads[axis + rank] for axis, size in enumerate(shapes[0]))


def _resize(shapes: Shapes, attributes: Attributes) -> Shape:
    batch, channels, _, _ = _image(shapes[0])
    return (batch, channels, *attributes["sizes"])


def _softmax(shapes: Shapes, attributes: Attributes) -> Shape:
    _check_axes((attributes["axis"],), shapes[0])
    return shapes[0]


def _layer_norm(shapes: Shapes, attributes: Attributes) -> Shape:
    _check_axes(attributes["axes"], shapes[0])
    return shapes[0]


def _expand(shapes: Shapes, attributes: Attributes) -> Shape:
    wanted = tuple(attributes["shape"])
    return broadcast((shapes[0], wanted))


_RULES: Mapping[str, Callable[[Shapes, Attributes], Shape]] = {
    "AveragePool": _pool,
    "Concat": _concat,
    "Conv": _convolution,
    "ConvTranspose": _deconvolution,
    "Expand": _expand,
    "LayerNorm": _layer_norm,
    "Linear": _linear,
    "MatMul": _matmul,
    "MaxPool": _pool,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Transpose": _transpose,
}
