"""Which places of a map a resized one reads (engine/src/layers/resize.cpp), in single precision as there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.exporting.layer import NetworkLayer

_f = np.float32


@dataclass(frozen=True, kw_only=True)
class Tap:
    """A place takes (1 - weight) of the input's place `lower` and `weight` of `upper`."""

    lower: int
    upper: int
    weight: np.float32


def taps_of(layer: NetworkLayer) -> tuple[list[Tap], list[Tap]]:
    """Those of the rows and of the columns of a resize layer."""
    _, *sizes = layer.input_shapes[0]
    _, *wanted = layer.out
    scales = [
        _f(layer.section.real(f"scale_{axis}", float(_f(out) / _f(size))))
        for axis, size, out in zip("yx", sizes, wanted, strict=True)
    ]
    rows, columns = (
        [_tap(layer, place, size, out, scale) for place in range(out)]
        for size, out, scale in zip(sizes, wanted, scales, strict=True)
    )
    return rows, columns


def is_linear(layer: NetworkLayer) -> bool:
    """Whether a resize layer interpolates, instead of taking the nearest value."""
    return layer.section.word("mode") == "linear"


def _tap(layer: NetworkLayer, place: int, size: int, out: int, scale: np.float32) -> Tap:
    source = _SOURCES[layer.section.word("coordinates") or "half_pixel"](_f(place), size, out, scale)
    if not is_linear(layer):
        nearest = _ROUNDED[layer.section.word("rounding") or "round_prefer_floor"](source)
        lower = int(np.clip(nearest, 0, size - 1))
        return Tap(lower=lower, upper=lower, weight=_f(0))
    inside = np.clip(source, _f(0), _f(size - 1))
    lower = int(inside)
    return Tap(lower=lower, upper=min(lower + 1, size - 1), weight=_f(inside - _f(lower)))


def _half_pixel(place: np.float32, _size: int, _out: int, scale: np.float32) -> np.float32:
    return (place + _f(0.5)) / scale - _f(0.5)


def _of_many(source: _Source) -> _Source:
    """`source`, but 0 for a single place."""
    return lambda place, size, out, scale: source(place, size, out, scale) if out > 1 else _f(0)


# (place, size of the input, size of the output, scale) to a place of the input
_Source = Callable[[np.float32, int, int, np.float32], np.float32]
_SOURCES: Mapping[str, _Source] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _of_many(_half_pixel),
    "asymmetric": lambda place, _size, _out, scale: place / scale,
    "align_corners": _of_many(lambda place, size, out, _scale: place * _f(size - 1) / _f(out - 1)),
}
_ROUNDED: Mapping[str, Callable[[np.float32], np.float32]] = {
    "round_prefer_floor": lambda source: np.ceil(source - _f(0.5)),
    "round_prefer_ceil": lambda source: np.copysign(np.floor(np.abs(source) + _f(0.5)), source),
    "floor": np.floor,
    "ceil": np.ceil,
}
