"""Runs the cfg, weights and calibration of an imported model in NumPy: slow, and as plain as can be.

Tests compare it with what the runtimes of the model's own format compute.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import Section, sections_of

Floats = npt.NDArray[np.float32]
Images = Sequence[Floats]

_HEADER = 20  # bytes


@dataclass
class Numbers:
    """The weights file, read from its beginning to its end."""

    values: Floats
    place: int = 0

    def take(self, *shape: int) -> Floats:
        count = math.prod(shape)
        assert self.place + count <= len(self.values), "the weights file is too short"
        found = self.values[self.place : self.place + count].reshape(shape)
        self.place += count
        return found


@dataclass
class Network:
    """A cfg with its weights. With a calibration, every tensor that it names is rounded to its grid."""

    cfg: str
    weights: bytes
    calibration: str | None = None
    tensors: dict[str, Floats] = field(default_factory=dict)

    def run(self, picture: Floats, *more: Floats) -> dict[str, Floats]:
        """The outputs of [net] by name. `picture`: channels, height, width, as the network takes it; `more`:
        the values of the sections [input] in their order."""
        net, *sections = sections_of(self.cfg, "cfg")
        numbers = Numbers(np.frombuffer(self.weights[_HEADER:], "<f4"))
        grids = self._grids()
        given = iter(more)
        before = net.options["name"]
        wanted = tuple(net.integer(key, 0) for key in ("channels", "height", "width"))
        assert picture.shape == wanted, (picture.shape, wanted)
        self.tensors = {before: _rounded(picture.astype(np.float32), grids.get(-1))}
        for index, section in enumerate(sections):
            names = section.options.get("from", before).split(",")
            alone = section.name in ("constant", "input")
            inputs = [] if alone else [self.tensors[name] for name in names]
            before = section.options["name"]
            assert before not in self.tensors, f"{before} is named twice"
            with np.errstate(all="ignore"):
                if section.name == "input":
                    found = next(given).reshape(_shape(section))
                else:
                    found = _KINDS[section.name](section, inputs, numbers)
                found = _activated(section, found)
            assert found.ndim == 3, section.name
            self.tensors[before] = _rounded(found.astype(np.float32), grids.get(index))
        assert numbers.place == len(numbers.values), "the weights file is too long"
        assert next(given, None) is None, "there are more values than inputs"
        return {name: self.tensors[name] for name in net.options["outputs"].split(",")}

    def _grids(self) -> dict[int, tuple[float, int]]:
        if self.calibration is None:
            return {}
        tensors = json.loads(self.calibration)["tensors"]
        return {
            entry["layer"]: (entry["scale"], entry["zero_point"]) for entry in tensors if "scale" in entry
        }


def _rounded(tensor: Floats, grid: tuple[float, int] | None) -> Floats:
    if grid is None:
        return tensor
    scale, zero = grid
    stored = np.clip(np.rint(tensor / scale) + zero, -128, 127)
    return np.asarray((stored - zero) * scale, np.float32)


def _activated(section: Section, x: Floats) -> Floats:
    word = section.options.get("activation", "linear")

    def number(key: str, default: float) -> float:
        return float(section.options.get(key, default))

    sigmoid: Callable[[Any], Any] = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    softplus: Callable[[Any], Any] = lambda v: np.logaddexp(0, v)  # noqa: E731
    erf = np.vectorize(math.erf, otypes=[np.float64])
    cube = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    found: Mapping[str, Callable[[], Any]] = {
        "linear": lambda: x,
        "relu": lambda: np.maximum(x, 0),
        "relu6": lambda: np.clip(x, 0, 6),
        "leaky": lambda: np.where(x > 0, x, number("alpha", 0.1) * x),
        "elu": lambda: np.where(x > 0, x, number("alpha", 1) * np.expm1(np.minimum(x, 0))),
        "logistic": lambda: sigmoid(x),
        "tanh": lambda: np.tanh(x),
        "swish": lambda: x * sigmoid(x),
        "mish": lambda: x * np.tanh(softplus(x)),
        "hard_sigmoid": lambda: np.clip(number("alpha", 1 / 6) * x + number("beta", 0.5), 0, 1),
        "hard_swish": lambda: x * np.clip(x / 6 + 0.5, 0, 1),
        "gelu": lambda: 0.5 * x * (1 + erf(x / math.sqrt(2))),
        "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(cube)),
        "clip": lambda: np.clip(x, number("min", -math.inf), number("max", math.inf)),
    }
    return np.asarray(found[word]())


def _both(section: Section, key: str, default: int = 1) -> tuple[int, int]:
    one = section.integer(key, default)
    return section.integer(f"{key}_y", one), section.integer(f"{key}_x", one)


def _padding(section: Section) -> tuple[int, int, int, int]:
    top, left, bottom, right = (
        section.integer(f"pad_{side}", 0) for side in ("top", "left", "bottom", "right")
    )
    return top, left, bottom, right


def _shape(section: Section) -> tuple[int, int, int]:
    return section.integer("channels", 0), section.integer("height", 0), section.integer("width", 0)


def _windows(section: Section, x: Floats, kernel: tuple[int, int], filler: float) -> Floats:
    """[channels, rows, columns, kernel rows, kernel columns]"""
    (step_y, step_x), (dilation_y, dilation_x) = _both(section, "stride"), _both(section, "dilation")
    top, left, bottom, right = _padding(section)
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right)), constant_values=filler)
    extent = ((kernel[0] - 1) * dilation_y + 1, (kernel[1] - 1) * dilation_x + 1)
    found = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=(1, 2))
    return np.asarray(found[:, ::step_y, ::step_x, ::dilation_y, ::dilation_x])


def _convolutional(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    (x,) = inputs
    filters, groups, kernel = (
        section.integer("filters", 1),
        section.integer("groups", 1),
        _both(section, "size"),
    )
    inner = x.shape[0] // groups
    bias = numbers.take(filters)
    weights = numbers.take(groups, filters // groups, inner * kernel[0] * kernel[1])
    windows = _windows(section, x, kernel, 0.0)
    rows, columns = windows.shape[1:3]
    parts = windows.reshape(groups, inner, rows, columns, *kernel).transpose(0, 1, 4, 5, 2, 3)
    found = weights @ parts.reshape(groups, -1, rows * columns)
    return np.asarray(found.reshape(filters, rows, columns) + bias.reshape(-1, 1, 1))


def _deconvolutional(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    (x,) = inputs
    channels, height, width = x.shape
    filters, groups, kernel = (
        section.integer("filters", 1),
        section.integer("groups", 1),
        _both(section, "size"),
    )
    (step_y, step_x), (dilation_y, dilation_x) = _both(section, "stride"), _both(section, "dilation")
    top, left, bottom, right = _padding(section)
    more_y, more_x = section.integer("output_pad_y", 0), section.integer("output_pad_x", 0)
    bias = numbers.take(filters)
    weights = numbers.take(groups, channels // groups, filters // groups, *kernel)
    full = np.zeros(
        (
            filters,
            (height - 1) * step_y + (kernel[0] - 1) * dilation_y + 1 + more_y,
            (width - 1) * step_x + (kernel[1] - 1) * dilation_x + 1 + more_x,
        )
    )
    spread = np.einsum("gihw,gioyx->goyxhw", x.reshape(groups, -1, height, width), weights)
    spread = spread.reshape(filters, *kernel, height, width)
    for y in range(kernel[0]):
        for column in range(kernel[1]):
            first, left_edge = y * dilation_y, column * dilation_x
            full[
                :,
                first : first + (height - 1) * step_y + 1 : step_y,
                left_edge : left_edge + (width - 1) * step_x + 1 : step_x,
            ] += spread[:, y, column]
    cut = full[:, top : full.shape[1] - bottom, left : full.shape[2] - right]
    return np.asarray(cut + bias.reshape(-1, 1, 1), np.float32)


def _connected(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    outputs = section.integer("output", 1)
    bias = numbers.take(outputs)
    weights = numbers.take(outputs, inputs[0].size)
    return np.asarray((weights @ inputs[0].reshape(-1) + bias).reshape(-1, 1, 1))


def _pool(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    kernel = _both(section, "size")
    if section.options["type"] == "max":
        return np.asarray(_windows(section, inputs[0], kernel, -math.inf).max(axis=(3, 4)))
    total = _windows(section, inputs[0], kernel, 0.0).sum(axis=(3, 4))
    if section.integer("count_padding", 0):
        return np.asarray(total / math.prod(kernel))
    return np.asarray(total / _windows(section, np.ones_like(inputs[0]), kernel, 0.0).sum(axis=(3, 4)))


def _resize(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    found = inputs[0]
    for axis, key in ((1, "height"), (2, "width")):
        size, wanted = found.shape[axis], section.integer(key, 0)
        scale = float(section.options.get(f"scale_{'yx'[axis - 1]}", wanted / size))
        places = np.arange(wanted, dtype=np.float64)
        at: npt.NDArray[Any]
        match section.options["coordinates"]:
            case "asymmetric":
                at = places / scale
            case "align_corners":
                at = places * (size - 1) / max(wanted - 1, 1)
            case "pytorch_half_pixel" if wanted == 1:
                at = np.zeros(1)
            case _:
                at = (places + 0.5) / scale - 0.5
        if section.options["mode"] == "nearest":
            rounding: Mapping[str, Callable[[Any], Any]] = {
                "floor": np.floor,
                "ceil": np.ceil,
                "round_prefer_floor": lambda v: np.ceil(v - 0.5),
                "round_prefer_ceil": lambda v: np.floor(v + 0.5),
            }
            rounded = rounding[section.options.get("rounding", "round_prefer_floor")](at)
            found = found.take(np.clip(rounded, 0, size - 1).astype(int), axis=axis)
            continue
        low = np.floor(at)
        share = (at - low).reshape(-1, *[1] * (2 - axis))
        first, second = (np.clip(low + step, 0, size - 1).astype(int) for step in (0, 1))
        found = found.take(first, axis=axis) * (1 - share) + found.take(second, axis=axis) * share
    return np.asarray(found)


def _softmax(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    axis = _AXES[section.options["axis"]]
    powers = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _slice(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    begin, end, step = section.integer("begin", 0), section.integer("end", 0), section.integer("step", 1)
    places = range(begin, end, step)
    size = inputs[0].shape[_AXES[section.options["axis"]]]
    assert 0 <= begin < end <= size if step > 0 else -1 <= end < begin < size
    return inputs[0].take(list(places), axis=_AXES[section.options["axis"]])


def _transpose(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    turned = inputs[0].reshape(section.integers("dims")).transpose(section.integers("axes"))
    return turned.reshape(_shape(section))


def _reduce(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    axes = tuple(_AXES[word] for word in section.options["axes"].split(","))
    kind = section.options["type"]
    if kind == "l2":
        return np.asarray(np.sqrt((inputs[0] ** 2).sum(axis=axes, keepdims=True)))
    return np.asarray(getattr(inputs[0], kind)(axis=axes, keepdims=True))


def _layer_norm(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    axes = tuple(_AXES[word] for word in section.options["axes"].split(","))
    x = inputs[0].astype(np.float64)
    epsilon = float(section.options.get("epsilon", 1e-5))
    return np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon))


def _pad(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    sides = [
        (section.integer(f"pad_{first}", 0), section.integer(f"pad_{last}", 0))
        for first, last in (("front", "back"), ("top", "bottom"), ("left", "right"))
    ]
    mode = section.options.get("mode", "constant")
    if mode == "constant":
        return np.pad(inputs[0], sides, constant_values=float(section.options.get("value", 0)))
    return np.pad(inputs[0], sides, mode="reflect" if mode == "reflect" else "edge")


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[[Section, Images, Numbers], Floats]:
    def run(section: Section, inputs: Images, numbers: Numbers) -> Floats:
        assert len(inputs) >= 2
        found = inputs[0]
        for other in inputs[1:]:
            assert all(
                1 in pair or len(set(pair)) == 1 for pair in zip(found.shape, other.shape, strict=True)
            )
            found = function(found, other)
        return found

    return run


def _route(section: Section, inputs: Images, numbers: Numbers) -> Floats:
    return np.concatenate(list(inputs), axis=_AXES[section.options.get("axis", "channels")])


_AXES = {"channels": 0, "height": 1, "width": 2}
_KINDS: Mapping[str, Callable[[Section, Images, Numbers], Floats]] = {
    "abs": lambda section, x, numbers: np.abs(x[0]),
    "activation": lambda section, x, numbers: x[0],
    "exp": lambda section, x, numbers: np.exp(x[0]),
    "neg": lambda section, x, numbers: -x[0],
    "sqrt": lambda section, x, numbers: np.sqrt(x[0]),
    "add": _elementwise(np.add),
    "avgpool": lambda section, x, numbers: x[0].mean(axis=(1, 2), keepdims=True),
    "connected": _connected,
    "constant": lambda section, x, numbers: numbers.take(*_shape(section)),
    "convolutional": _convolutional,
    "deconvolutional": _deconvolutional,
    "div": _elementwise(np.divide),
    "matmul": lambda section, x, numbers: np.asarray(x[0] @ x[1]),
    "maximum": _elementwise(np.maximum),
    "minimum": _elementwise(np.minimum),
    "mul": _elementwise(np.multiply),
    "pad": _pad,
    "pool": _pool,
    "prelu": lambda section, x, numbers: np.where(
        x[0] > 0, x[0], x[0] * numbers.take(x[0].shape[0]).reshape(-1, 1, 1)
    ),
    "layer_norm": _layer_norm,
    "reduce": _reduce,
    "reshape": lambda section, x, numbers: x[0].reshape(_shape(section)),
    "resize": _resize,
    "route": _route,
    "slice": _slice,
    "softmax": _softmax,
    "sub": _elementwise(np.subtract),
    "transpose": _transpose,
    "upsample": lambda section, x, numbers: (
        x[0].repeat(section.integer("stride", 1), 1).repeat(section.integer("stride", 1), 2)
    ),
}


def pieces(text: str) -> Iterator[str]:
    """The kinds of the sections of a cfg, in order."""
    return (section.name for section in sections_of(text, "cfg")[1:])
