"""The sizes of layers' outputs from their sections alone, for what is asked before an engine is built.

Reports contain the engine's sizes (`mpe info`). For a cfg that the engine refuses, these are arbitrary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

Shape = tuple[int, int, int]  # channels, height, width

_AXES = ("channels", "height", "width")


@dataclass(frozen=True, kw_only=True)
class WindowAxis:
    """A sliding window along one axis, in pixels."""

    taps: int  # values of the window
    stride: int = 1
    dilation: int = 1
    before: int = 0  # padding
    after: int = 0

    @property
    def extent(self) -> int:
        """From its first to its last value."""
        return (self.taps - 1) * self.dilation + 1

    def positions(self, size: int) -> int:
        """The places of the window on so many pixels."""
        return max((size + self.before + self.after - self.extent) // self.stride + 1, 1)


class Options(Protocol):
    """The options of a section, read as the engine reads them."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> dict[str, str]: ...
    def integer(self, key: str, default: int) -> int: ...
    def integers(self, key: str) -> list[int]: ...


def output_shape(section: Options, inputs: Sequence[Shape]) -> Shape:
    """The output of a layer with these inputs; there are none for a constant or an input."""
    channels, height, width = inputs[0] if inputs else (1, 1, 1)
    match section.name:
        case "convolutional":
            return (section.integer("filters", 1), *_windows(section, height, width))
        case "deconvolutional":
            return (section.integer("filters", 1), *_added_windows(section, height, width))
        case "connected":
            return section.integer("output", 1), 1, 1
        case "maxpool" | "pool":
            return (channels, *_windows(section, height, width))
        case "avgpool":
            return channels, 1, 1
        case "upsample":
            stride = section.integer("stride", 2)
            return channels, height * stride, width * stride
        case "reorg":
            stride = _positive(section, "stride")
            if section.integer("reverse", 0):
                return channels // stride**2, height * stride, width * stride
            return channels * stride**2, height // stride, width // stride
        case "crop":
            return channels, section.integer("crop_height", 1), section.integer("crop_width", 1)
        case "scale_channels":
            return inputs[1]
        case "route":
            return _joined(section, inputs)
        case "add" | "sub" | "mul" | "div" | "minimum" | "maximum":
            return tuple(map(max, zip(*inputs, strict=True)))
        case "matmul":
            return channels, height, inputs[-1][2]
        case _:
            return _rearranged(section, inputs[0] if inputs else (1, 1, 1))


def window_terms(section: Options) -> int:
    """The places of a convolution's window."""
    size = _positive(section, "size")
    return _positive(section, "size_y", size) * _positive(section, "size_x", size)


def _rearranged(section: Options, shape: Shape) -> Shape:
    channels, height, width = shape
    match section.name:
        case "reshape" | "constant" | "input" | "transpose" if "channels" in section.options:
            return _named(section, shape)
        case "transpose":
            dims = section.integers("dims") or list(shape)
            axes = section.integers("axes")
            if len(dims) != 3 or sorted(axes) != [0, 1, 2]:
                return shape
            return dims[axes[0]], dims[axes[1]], dims[axes[2]]
        case "resize":
            return channels, section.integer("height", height), section.integer("width", width)
        case "pad":
            before_and_after = (("front", "back"), ("top", "bottom"), ("left", "right"))
            added = (sum(section.integer(f"pad_{side}", 0) for side in sides) for sides in before_and_after)
            channels, height, width = (size + more for size, more in zip(shape, added, strict=True))
            return channels, height, width
        case "slice":
            return _replaced(shape, _axis(section), _sliced(section, shape[_axis(section)]))
        case "reduce":
            reduced = section.options.get("axes", "").split(",")
            for axis, name in enumerate(_AXES):
                shape = _replaced(shape, axis, 1 if name in reduced else shape[axis])
            return shape
        case _:
            return shape


def _named(section: Options, shape: Shape) -> Shape:
    channels, height, width = (section.integer(name, size) for name, size in zip(_AXES, shape, strict=True))
    return channels, height, width


def _axis(section: Options) -> int:
    name = section.options.get("axis", "channels")
    return _AXES.index(name) if name in _AXES else 0


def _replaced(shape: Shape, axis: int, size: int) -> Shape:
    channels, height, width = (size if i == axis else before for i, before in enumerate(shape))
    return channels, height, width


def _sliced(section: Options, size: int) -> int:
    step = section.integer("step", 1) or 1
    begin = section.integer("begin", 0 if step > 0 else size - 1)
    end = section.integer("end", size if step > 0 else -1)
    return max(ceil((end - begin) / step), 1)


def _joined(section: Options, inputs: Sequence[Shape]) -> Shape:
    axis = _axis(section)
    groups = max(section.integer("groups", 1), 1)
    return _replaced(inputs[0], axis, sum(shape[axis] // groups for shape in inputs))


def _windows(section: Options, height: int, width: int) -> tuple[int, int]:
    rows, columns = window_axes(section)
    return rows.positions(height), columns.positions(width)


def _added_windows(section: Options, height: int, width: int) -> tuple[int, int]:
    """Of a transposed convolution."""

    def places(axis: WindowAxis, size: int, added: str) -> int:
        padding = axis.before + axis.after
        return max((size - 1) * axis.stride + axis.extent - padding + section.integer(added, 0), 1)

    rows, columns = window_axes(section)
    return places(rows, height, "output_pad_y"), places(columns, width, "output_pad_x")


def window_axes(section: Options) -> tuple[WindowAxis, WindowAxis]:
    """The window of a convolution, a transposed convolution or a pooling layer: its rows, its columns."""
    axis = _maxpool_axis if section.name == "maxpool" else _window_axis
    return axis(section, "y"), axis(section, "x")


def _window_axis(section: Options, axis: str) -> WindowAxis:
    taps = _positive(section, f"size_{axis}", _positive(section, "size"))
    apart = 1 if taps == 1 else _positive(section, f"dilation_{axis}", _positive(section, "dilation"))
    both = (taps // 2 if section.integer("pad", 0) else section.integer("padding", 0)) * apart
    before, after = {"y": ("top", "bottom"), "x": ("left", "right")}[axis]
    return WindowAxis(
        taps=taps,
        stride=_positive(section, f"stride_{axis}", _positive(section, "stride")),
        dilation=apart,
        before=section.integer(f"pad_{before}", both),
        after=section.integer(f"pad_{after}", both),
    )


def _maxpool_axis(section: Options, axis: str) -> WindowAxis:
    """Darknet's padding is that of both ends; the smaller half comes before the map."""
    stride = _positive(section, "stride")
    size = section.integer("size", stride)
    padding = section.integer("padding", size - 1)
    return WindowAxis(
        taps=size,
        stride=_positive(section, f"stride_{axis}", stride),
        before=padding // 2,
        after=padding - padding // 2,
    )


def _positive(section: Options, key: str, default: int = 1) -> int:
    value = section.integer(key, default)
    return value if value > 0 else default
