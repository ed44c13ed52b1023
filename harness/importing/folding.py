"""Computes neutral operators on constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.importing.quantization import Quantization

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]
Fold = Callable[[Sequence[Array], Attributes], Array]


def folded(op: str, inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    """The value of an operator on constants, in their type; None if it is not computed here."""
    fold = _FOLDS.get(op)
    if fold is None:
        return None
    with np.errstate(all="ignore"):  # a constant may be infinite
        value = np.asarray(fold(inputs, attributes))
    return value.astype(np.float32) if value.dtype.kind == "f" else value


def moved(op: str, quantization: Quantization, attributes: Attributes) -> Quantization | None:
    """The grid of a constant after an operator that only moves its numbers; None after any other."""
    if op == "Transpose" and not quantization.per_tensor:
        return replace(quantization, axis=list(attributes["perm"]).index(quantization.axis))
    if op in ("Transpose", "Reshape", "Slice", "Identity", "Expand") and quantization.per_tensor:
        return quantization
    return None


def taken(attributes: Attributes) -> slice:
    """The part of an axis that a Slice takes."""
    begin, end, step = attributes["begin"], attributes["end"], attributes["step"]
    if step > 0:
        return slice(begin, end, step)
    return slice(end - 1, begin - 1 if begin else None, step)


def _slice(inputs: Sequence[Array], attributes: Attributes) -> Array:
    index = [slice(None)] * inputs[0].ndim
    index[attributes["axis"]] = taken(attributes)
    return inputs[0][tuple(index)]


def _pad(inputs: Sequence[Array], attributes: Attributes) -> Array:
    pads, rank = attributes["pads"], inputs[0].ndim
    both = [(pads[axis], pads[axis + rank]) for axis in range(rank)]
    mode = attributes["mode"]
    if mode == "constant":
        return np.pad(inputs[0], both, constant_values=attributes["value"])
    return np.pad(inputs[0], both, mode="reflect" if mode == "reflect" else "edge")


def _divide(inputs: Sequence[Array], _: Attributes) -> Array:
    first, second = inputs
    if first.dtype.kind in "iu" and second.dtype.kind in "iu":
        return np.asarray(np.trunc(first / np.where(second == 0, 1, second))).astype(first.dtype)
    return np.asarray(first / second)


def _clip(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.clip(inputs[0], attributes.get("min", -np.inf), attributes.get("max", np.inf))


_FOLDS: Mapping[str, Fold] = {
    "Add": lambda x, _: x[0] + x[1],
    "Sub": lambda x, _: x[0] - x[1],
    "Mul": lambda x, _: x[0] * x[1],
    "Div": _divide,
    "Pow": lambda x, _: x[0] ** x[1],
    "Min": lambda x, _: np.minimum.reduce(np.broadcast_arrays(*x)),
    "Max": lambda x, _: np.maximum.reduce(np.broadcast_arrays(*x)),
    "Abs": lambda x, _: np.abs(x[0]),
    "Neg": lambda x, _: -x[0],
    "Exp": lambda x, _: np.exp(x[0]),
    "Log": lambda x, _: np.log(x[0]),
    "Sqrt": lambda x, _: np.sqrt(x[0]),
    "Tanh": lambda x, _: np.tanh(x[0]),
    "Sigmoid": lambda x, _: 1 / (1 + np.exp(-x[0])),
    "Relu": lambda x, _: np.maximum(x[0], 0),
    "Clip": _clip,
    "Identity": lambda x, _: x[0],
    "Concat": lambda x, a: np.concatenate(list(x), axis=a["axis"]),
    "Slice": _slice,
    "Pad": _pad,
    "Reshape": lambda x, a: x[0].reshape([int(size) for size in a["shape"]]),
    "Transpose": lambda x, a: np.transpose(x[0], a["perm"]),
    "Expand": lambda x, a: np.array(np.broadcast_to(x[0], np.broadcast_shapes(x[0].shape, a["shape"]))),
    "ReduceMean": lambda x, a: np.mean(x[0], axis=tuple(a["axes"]), keepdims=True),
    "ReduceSum": lambda x, a: np.sum(x[0], axis=tuple(a["axes"]), keepdims=True),
    "ReduceMax": lambda x, a: np.max(x[0], axis=tuple(a["axes"]), keepdims=True),
    "ReduceMin": lambda x, a: np.min(x[0], axis=tuple(a["axes"]), keepdims=True),
}
