"""The lines by which int8 layers compute activations (engine/src/quant/activation_lines.h), in NumPy.

The functions are those of engine/src/kernels/activation.h, operation for operation: the lines have their
bits. Doubles hold the product of two floats exactly, so that a sum in double, rounded once more, is the
engine's multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from harness.exporting.weights_file import Floats

EITHER_SIDE, PER_UNIT = 512, 32
PLACES_PER_UNIT, PLACES_PER_LINE = 2048.0, 64
_FAR = 4096.0  # where asymptotes are drawn to


@cache
def lines_of(activation: str) -> tuple[Floats, Floats]:
    """Intercepts and slopes; line i is that of [i - EITHER_SIDE, i + 1 - EITHER_SIDE) / PER_UNIT."""
    places = np.arange(-EITHER_SIDE, EITHER_SIDE + 1, dtype=np.float64) / PER_UNIT
    left, right = places[:-1].copy(), places[1:].copy()
    left[0], right[-1] = -_FAR, _FAR

    def exact(x: np.ndarray) -> np.ndarray:
        return LINED[activation](x.astype(np.float32)).astype(np.float64)

    slope = (exact(right) - exact(left)) / (right - left)
    sag = exact((left + right) / 2) - (exact(left) + exact(right)) / 2
    return (exact(left) - slope * left + sag / 2).astype(np.float32), slope.astype(np.float32)


def _multiply_add(sum_: Floats, a: Floats, b: Floats) -> Floats:
    exact = sum_.astype(np.float64) + a.astype(np.float64) * b.astype(np.float64)
    return np.asarray(exact, np.float32)


def _f(value: float) -> Floats:
    return np.asarray(value, np.float32)


_one, _two, _half = _f(1), _f(2), _f(0.5)


def _exponential(x: Floats, sign: int, *, precise: bool = False) -> tuple[Floats, Floats]:
    """Scale and rest: e^(sign x) = scale (1 + sign rest)."""
    magic = _f(12582912.0 + 127.0)
    exponent = _multiply_add(magic, x, _f(sign * 1.44269504))
    r = _multiply_add(x, -(exponent - magic), _f(sign * 0.693147182))
    square = r * r
    if precise:
        low = _multiply_add(_f(sign * 0.49999997), r, _f(0.16666542))
        middle = _multiply_add(_f(sign * 0.0416676), r, _f(0.00836668))
        high = _multiply_add(middle, square, _f(sign * 0.00138582))
    else:
        low = _multiply_add(_f(sign * 0.49999231), r, _f(0.16667115))
        high = _multiply_add(_f(sign * 0.04189016), r, _f(0.00831252))
    curve = _multiply_add(low, square, high)
    scale = (exponent.view(np.uint32) << np.uint32(23)).view(np.float32)
    return scale, _multiply_add(r, square, curve)


def _power(x: Floats, sign: int) -> Floats:
    scale, rest = _exponential(x, sign)
    return _multiply_add(scale, _f(sign) * scale, rest)


def _reciprocal(x: Floats) -> Floats:
    y = (np.uint32(0x7EF311C4) - x.view(np.uint32)).view(np.float32)
    for _ in range(3):
        y = y * _multiply_add(_f(2), -x, y)
    return y


def _limited(x: Floats, limit: float) -> Floats:
    return np.minimum(_f(limit), np.maximum(_f(-limit), x))


def _logistic(x: Floats) -> Floats:
    return _reciprocal(_one + _power(_limited(x, 87.0), -1))


def _tanh(x: Floats) -> Floats:
    half = _limited(x, 10.0)
    scale, rest = _exponential(half + half, 1, precise=True)
    n = _multiply_add(scale - _one, scale, rest)
    return n * _reciprocal(n + _two)


def _mish(x: Floats) -> Floats:
    e = _power(np.minimum(_f(20), np.maximum(_f(-87), x)), 1)
    n = _multiply_add(e + e, e, e)
    return x * (n * _reciprocal(n + _two))


def _hard_mish(x: Floats) -> Floats:
    bent = np.maximum(_f(-2), np.minimum(_f(0), x))
    return np.maximum(_f(0), x) + ((bent * bent) * _half + bent)


def _hard_sigmoid(x: Floats) -> Floats:
    return np.minimum(_one, np.maximum(_f(0), _multiply_add(_half, x, _f(0.166666667))))


def _elu(x: Floats) -> Floats:
    scale, rest = _exponential(np.minimum(_f(0), np.maximum(_f(-87), x)), 1, precise=True)
    return np.maximum(_f(0), x) + _multiply_add(scale - _one, scale, rest)


LINED: Mapping[str, Callable[[Floats], Floats]] = {
    "logistic": _logistic,
    "tanh": _tanh,
    "mish": _mish,
    "swish": lambda x: x * _logistic(x),
    "hard_mish": _hard_mish,
    "hard_swish": lambda x: x * _hard_sigmoid(x),
    "hard_sigmoid": _hard_sigmoid,
    "elu": _elu,
}
