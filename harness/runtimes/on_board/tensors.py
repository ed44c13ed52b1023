"""Inputs of a model: their shapes, and arrays for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Tensor(NamedTuple):
    """An input or output as a runtime describes it."""

    name: str
    shape: tuple[int, ...]  # a size that is not fixed is 0 or less
    dtype: np.dtype
    grid: tuple[float, int] | None = None  # scale and zero point of quantised numbers


class Layout(NamedTuple):
    """How a picture of channels, height, width becomes an input."""

    shape: tuple[int, ...]
    last: bool  # channels are last


def layout(tensor: Tensor, picture: Sequence[int], *, channels_last: bool = False) -> Layout:
    """The layout of an input, by its sizes; `channels_last` says it of four axes, where a cube's do not tell.

    Raises ValueError if the input does not fit the picture.
    """
    channels, height, width = picture
    declared = (1, *tensor.shape[1:]) if tensor.shape and tensor.shape[0] <= 0 else tensor.shape
    if len(declared) == 4:
        for sizes, last in (((channels, height, width), False), ((height, width, channels), True)):
            fits = all(size in (0, -1, wanted) for size, wanted in zip(declared[1:], sizes))
            if fits and (last or not channels_last):
                return Layout(shape=(declared[0], *sizes), last=last)
    elif min(declared, default=1) > 0 and _product(declared) == channels * height * width:
        return Layout(shape=declared, last=False)
    raise ValueError(f"the input {tensor.name} has the shape {tensor.shape}, which does not fit {picture}")


def picture_among(tensors: Sequence[Tensor]) -> int:
    """The index of the input for pictures: the first with the shape of a batch of images, or the first."""
    return next((place for place, tensor in enumerate(tensors) if len(tensor.shape) == 4), 0)


def array_for(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """Real numbers as the numbers of an input."""
    if tensor.grid is not None:
        scale, zero = tensor.grid
        values = values / np.float32(scale) + zero
    if tensor.dtype.kind in "iu":
        limits = np.iinfo(tensor.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.ascontiguousarray(values, dtype=tensor.dtype)


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """The numbers of an output as float32."""
    found = np.asarray(values).astype(np.float32)
    if tensor.grid is not None:
        scale, zero = tensor.grid
        found = (found - np.float32(zero)) * np.float32(scale)
    return found


def placed(image: np.ndarray, found: Layout) -> np.ndarray:
    """An image [channels, height, width] in the layout of the input."""
    return (image.transpose(1, 2, 0) if found.last else image).reshape(found.shape)


def channels_first(values: np.ndarray) -> np.ndarray:
    """An output [images, height, width, channels] as [images, channels, height, width]; outputs of fewer axes
    as they are."""
    return np.moveaxis(values, -1, 1) if values.ndim == 4 else values


def random_inputs(tensors: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The same random numbers each time: 0 to 1, or 0 to 255 for bytes of a picture."""
    random = np.random.default_rng(20)
    return [
        array_for(tensor, random.random(shape, dtype=np.float32) * (255 if _bytes(tensor) else 1))
        for tensor, shape in zip(tensors, shapes)
    ]


def shapes_of(tensors: Sequence[Tensor], picture: Sequence[int]) -> list[tuple[int, ...]]:
    """The shapes of all inputs. Raises ValueError if a size is not known."""
    chosen = picture_among(tensors)
    shapes = []
    for place, tensor in enumerate(tensors):
        if place == chosen:
            shapes.append(layout(tensor, picture).shape)
            continue
        fixed = tuple(size if axis or size > 0 else 1 for axis, size in enumerate(tensor.shape))
        if min(fixed, default=1) <= 0:
            raise ValueError(f"the size of the input {tensor.name} is not fixed: {tensor.shape}")
        shapes.append(fixed)
    return shapes


def _bytes(tensor: Tensor) -> bool:
    return tensor.dtype == np.uint8 and tensor.grid is None


def _product(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))
