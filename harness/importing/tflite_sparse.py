"""Expands the sparse constants of a TensorFlow Lite file.

The format is that of `SparsityParameters` in TensorFlow Lite's schema.fbs, after TACO (Chou et al., "Format
abstraction for sparse tensor algebra compilers", 2018): a tree with one level per axis of the traversal. A
dense level has every coordinate; a compressed one lists the coordinates below each node. The values are those
of the leaves. An axis may be divided into blocks, whose inner coordinates are further levels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_DENSE = 0  # of DimensionType


def expanded(values: Array, sparsity: Any, shape: tuple[int, ...]) -> Array:
    """The dense array of `shape` with these values; the others are zero. Raises ValueError if the file
    contradicts itself."""
    order = _integers(sparsity.TraversalOrderAsNumpy(), sparsity.TraversalOrderLength())
    blocks = _integers(sparsity.BlockMapAsNumpy(), sparsity.BlockMapLength())
    levels = len(shape) + len(blocks)
    if sorted(order) != list(range(levels)) or sparsity.DimMetadataLength() != levels:
        raise ValueError("the order of its axes is wrong")
    metadata = {level: sparsity.DimMetadata(place) for place, level in enumerate(order)}
    # The number of coordinates of each level, and the distance of neighbours in the dense array.
    extents = [*shape, *(0 for _ in blocks)]
    strides = [*(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), *(0 for _ in blocks)]
    for level, axis in reversed(list(enumerate(blocks, len(shape)))):
        size = metadata[level].DenseSize()
        if not 0 <= axis < len(shape) or size < 1 or extents[axis] % size:
            raise ValueError("its blocks are wrong")
        extents[level], extents[axis] = size, extents[axis] // size
        strides[level], strides[axis] = strides[axis], strides[axis] * size
    # The file has a value or a segment for each node, so that a small file cannot ask for many.
    most = max(len(values), *(_segment_count(metadata[level]) for level in order))
    places = np.zeros(1, np.int64)  # of the nodes of one level: where their values begin
    for level in order:
        if metadata[level].Format() == _DENSE and len(places) * extents[level] > most:
            raise ValueError("it has too few values")
        parents, coordinates = _level(metadata[level], extents[level], len(places))
        places = places[parents] + strides[level] * coordinates
    if len(places) != len(values):
        raise ValueError(f"it has {len(values)} values for {len(places)} places")
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[places] = values
    return dense.reshape(shape)


def _level(metadata: Any, extent: int, parents: int) -> tuple[Array, Array]:
    """The parent and the coordinate of each node of a level."""
    if metadata.Format() == _DENSE:
        if metadata.DenseSize() != extent:
            raise ValueError("the size of an axis is wrong")
        return np.repeat(np.arange(parents), extent), np.tile(np.arange(extent), parents)
    segments = _numbers(_vector(metadata.ArraySegmentsType(), metadata.ArraySegments()))
    coordinates = _numbers(_vector(metadata.ArrayIndicesType(), metadata.ArrayIndices()))
    children = np.diff(segments)
    if len(children) != parents or (children < 0).any() or segments[0] or segments[-1] != len(coordinates):
        raise ValueError("the segments of an axis are wrong")
    if (children > extent).any() or ((coordinates < 0) | (coordinates >= extent)).any():
        raise ValueError("a coordinate is wrong")
    return np.repeat(np.arange(parents), children), coordinates


def _integers(numbers: Any, length: int) -> list[int]:
    """A vector of the file, which may be absent."""
    return [int(number) for number in np.atleast_1d(numbers)] if length else []


def _segment_count(metadata: Any) -> int:
    """Of a compressed level."""
    if metadata.Format() == _DENSE:
        return 0
    return int(_vector(metadata.ArraySegmentsType(), metadata.ArraySegments()).ValuesLength())


def _vector(kind: int, table: Any) -> Any:
    """A member of the union SparseIndexVector."""
    import tflite

    classes = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
    if kind not in classes or table is None:
        raise ValueError("the list of an axis is missing")
    vector = classes[kind]()
    vector.Init(table.Bytes, table.Pos)
    return vector


def _numbers(vector: Any) -> Array:
    values = vector.ValuesAsNumpy()
    return values.astype(np.int64) if isinstance(values, np.ndarray) else np.zeros(0, np.int64)
