"""Sparse constants of TensorFlow Lite files come out as they went in; damaged ones are refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from flat_models import FlatTensor, Level, Sparsity, flat_model
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.errors import ConfigurationError
from harness.importing.tflite_file import parse_flat_model

Array = npt.NDArray[Any]


def read(shape: tuple[int, ...], values: Array, sparsity: Sparsity) -> Array:
    constant = FlatTensor(name="weights", shape=shape, data=values.tobytes(), sparsity=sparsity)
    model = flat_model([FlatTensor(name="x"), constant], [])
    data = parse_flat_model(model, "a.tflite").tensors[1].data
    assert data is not None
    return data


def stored(
    dense: Array, order: tuple[int, ...], blocks: tuple[tuple[int, int], ...], compressed: set[int], kind: int
) -> tuple[Array, Sparsity]:
    """The values and their description. `blocks`: axis and size of each; `compressed`: levels."""
    divided = [
        [size, *(size for axis, size in blocks if axis == place)] for place, size in enumerate(dense.shape)
    ]
    for sizes in divided:
        sizes[0] //= int(np.prod(sizes[1:]))
    # Each axis beside its blocks; then all axes before all blocks, as levels are numbered; then in order.
    split = dense.reshape(list(itertools.chain(*divided)))
    starts = np.cumsum([0, *map(len, divided)])
    numbers = [int(start) for start in starts[:-1]]
    seen = [1] * dense.ndim
    for axis, _ in blocks:
        numbers.append(int(starts[axis]) + seen[axis])
        seen[axis] += 1
    tree = split.transpose([numbers[level] for level in order])
    nodes: list[tuple[int, ...]] = [()]
    levels = []
    for place, level in enumerate(order):
        size = tree.shape[place]
        children = [
            [index for index in range(size) if level not in compressed or tree[(*node, index)].any()]
            for node in nodes
        ]
        if level in compressed:
            segments = [0, *itertools.accumulate(map(len, children))]
            levels.append(Level(segments=segments, indices=list(itertools.chain(*children)), type=kind))
        else:
            levels.append(Level(size=size))
        nodes = [(*node, index) for node, below in zip(nodes, children, strict=True) for index in below]
    values = np.array([tree[node] for node in nodes], dense.dtype)
    return values, Sparsity(traversal=order, blocks=[axis for axis, _ in blocks], levels=levels)


@given(st.data())
def test_sparse_constants_come_out_as_they_went_in(data: st.DataObject) -> None:
    blocks: list[tuple[int, int]] = []
    shape = []
    for axis in range(data.draw(st.integers(1, 4))):
        inner = data.draw(st.lists(st.integers(1, 3), max_size=2))
        blocks += [(axis, size) for size in inner]
        shape.append(data.draw(st.integers(1, 3)) * int(np.prod(inner)))
    size = int(np.prod(shape))
    assume(size <= 4096)  # hypothesis draws no longer lists
    values = data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    dense = np.array(values, np.float32).reshape(shape) * np.arange(1, size + 1, dtype=np.float32).reshape(
        shape
    )
    order = data.draw(st.permutations(range(len(shape) + len(blocks))))
    compressed = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    # One value at least, because an empty buffer means that a tensor is no constant.
    dense.flat[0] = 1.0
    kind = data.draw(st.integers(1, 3 if size < 256 else 2))  # 3: of bytes
    found, sparsity = stored(dense, tuple(order), tuple(blocks), compressed, kind)
    np.testing.assert_array_equal(read(dense.shape, found, sparsity), dense)


DENSE = np.array([[0, 2, 0], [0, 0, 0], [4, 5, 0]], np.float32)
VALUES, SPARSITY = stored(DENSE, (0, 1), (), {1}, 1)
ROWS, COLUMNS = SPARSITY.levels


@pytest.mark.parametrize(
    ("sparsity", "reason"),
    [
        (replace(SPARSITY, traversal=(0, 0)), "the order of its axes"),
        (replace(SPARSITY, levels=(ROWS,)), "the order of its axes"),
        (replace(SPARSITY, levels=(Level(size=4), COLUMNS)), "the size of an axis"),
        (replace(SPARSITY, levels=(ROWS, Level(segments=[0, 1, 3], indices=[1, 0, 1]))), "the segments"),
        (replace(SPARSITY, levels=(ROWS, Level(segments=[0, 2, 1, 3], indices=[1, 0, 1]))), "the segments"),
        (replace(SPARSITY, levels=(ROWS, Level(segments=[0, 1, 1, 9], indices=[1, 0, 1]))), "the segments"),
        (replace(SPARSITY, levels=(ROWS, replace(COLUMNS, indices=[1, 0, 3]))), "a coordinate"),
        (replace(SPARSITY, levels=(ROWS, replace(COLUMNS, indices=[1, 0, -1]))), "a coordinate"),
        (replace(SPARSITY, levels=(ROWS, Level(size=3))), "it has too few values"),
        (
            replace(SPARSITY, levels=(ROWS, Level(segments=[0, 1, 1, 2], indices=[1, 0]))),
            "it has 3 values for 2 places",
        ),
        (
            Sparsity(traversal=(0, 1, 2), blocks=[1], levels=(ROWS, Level(size=2), Level(size=2))),
            "its blocks are wrong",
        ),
        (
            Sparsity(traversal=(0, 1, 2), blocks=[7], levels=(ROWS, Level(size=1), Level(size=3))),
            "its blocks are wrong",
        ),
    ],
)
def test_a_damaged_description_is_refused(sparsity: Sparsity, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the sparse constant 'weights': {reason}"):
        read(DENSE.shape, VALUES, sparsity)


@pytest.mark.parametrize("shape", [(1 << 28, 0), (1 << 16, 1 << 3)])
def test_few_values_do_not_take_much_memory(shape: tuple[int, ...]) -> None:
    levels = (Level(size=shape[0]), Level(segments=[0, 1], indices=[0]))
    sparsity = Sparsity(traversal=(0, 1), blocks=(), levels=levels)
    with pytest.raises(ConfigurationError, match="the sparse constant 'weights': it has too few values"):
        read(shape, VALUES[:1], sparsity)


def test_a_small_file_cannot_declare_a_large_constant() -> None:
    levels = (Level(segments=[0, 1], indices=[5]), Level(size=1))
    sparsity = Sparsity(traversal=(0, 1), blocks=(), levels=levels)
    with pytest.raises(ConfigurationError, match="far larger than the file"):
        read((1 << 28, 1), VALUES[:1], sparsity)
