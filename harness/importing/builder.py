"""Writes the operators that both formats have, and that are several neutral ones, into a graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.importing.graph import Array, Attribute, Graph, Shape, Source
from harness.importing.quantization import Quantization

_MOST_PIECES = 4096  # of a tensor that is cut up by indices


@dataclass(kw_only=True)
class Builder:
    """Adds operators of one node of the model. Methods return the name of the tensor that they make.

    All raise ConfigurationError, with the node, for what cannot be imported.
    """

    graph: Graph
    source: Source

    def emit(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        return self.graph.emit(op, inputs, attributes, source=self.source)

    def shape(self, name: str) -> Shape:
        return self.graph.shape(name)

    def value(self, name: str, what: str) -> Array:
        """The numbers of a tensor that must be constant."""
        value = self.graph.value(name)
        if value is None:
            raise self.source.unsupported(f"{what} is computed by the network, not constant")
        return value

    def integers(self, name: str, what: str) -> tuple[int, ...]:
        return tuple(int(number) for number in np.atleast_1d(self.value(name, what)).reshape(-1))

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= axis < rank:
            raise self.source.unsupported(f"axis {axis} of a tensor with {rank} axes")
        return axis % rank

    def scalar(self, number: float) -> str:
        return self.graph.constant(np.array(number, np.float32), name="scalar")

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        wanted = tuple(int(size) for size in shape)
        return name if wanted == self.shape(name) else self.emit("Reshape", name, shape=wanted)

    def reshape_with_free(self, name: str, shape: Sequence[int]) -> str:
        """The same where one size may be -1: what remains."""
        sizes = [int(size) for size in shape]
        if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
            raise self.source.unsupported(f"a tensor cannot become {tuple(sizes)}")
        if -1 in sizes:
            known = -math.prod(sizes)
            if known == 0:
                raise self.source.unsupported(f"a tensor cannot become {tuple(sizes)}")
            sizes[sizes.index(-1)] = math.prod(self.shape(name)) // known
        return self.reshape(name, sizes)

    def transpose(self, name: str, order: Sequence[int]) -> str:
        order = tuple(order)
        return name if order == tuple(range(len(order))) else self.emit("Transpose", name, perm=order)

    def slice(self, name: str, axis: int, begin: int, end: int, step: int = 1) -> str:
        """Elements begin, begin + step, ... before `end` of an axis; with a negative step those of the same
        range from its end."""
        if (begin, end, step) == (0, self.shape(name)[axis], 1):
            return name
        return self.emit("Slice", name, axis=axis, begin=begin, end=end, step=step)

    def python_slice(self, name: str, axis: int, begin: int, end: int, step: int) -> str:
        """A slice with Python's meaning: the end of a negative step comes before its beginning."""
        if step == 0:
            raise self.source.unsupported("a slice with a step of 0")
        chosen = range(self.shape(name)[axis])[begin:end:step]
        if not chosen:
            raise self.source.unsupported("a slice is empty")
        first, last = chosen[0], chosen[-1]
        if step > 0:
            return self.slice(name, axis, first, last + 1, step)
        return self.slice(name, axis, last, first + 1, step)

    def split(self, name: str, axis: int, sizes: Sequence[int]) -> list[str]:
        if sum(sizes) != self.shape(name)[axis]:
            raise self.source.unsupported(f"{self.shape(name)[axis]} cannot be split into {tuple(sizes)}")
        ends = np.cumsum(sizes).tolist()
        return [self.slice(name, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def gather(self, name: str, axis: int, indices: Array) -> str:
        """Elements of an axis by constant indices of any shape; an index without axes removes the axis."""
        shape = self.shape(name)
        flat = [int(index) for index in indices.reshape(-1)]
        if any(not -shape[axis] <= index < shape[axis] for index in flat) or not flat:
            raise self.source.unsupported(f"an index outside 0 to {shape[axis] - 1}")
        found = self._pieces(name, axis, [index % shape[axis] for index in flat])
        return self.reshape(found, (*shape[:axis], *indices.shape, *shape[axis + 1 :]))

    def _pieces(self, name: str, axis: int, indices: Sequence[int]) -> str:
        """Concatenates the runs of indices that are slices."""
        pieces: list[str] = []
        start = 0
        while start < len(indices):
            end = start + 1
            step = indices[end] - indices[start] if end < len(indices) else 1
            if step == 0:
                step = 1
            while end < len(indices) and indices[end] - indices[end - 1] == step:
                end += 1
            first, last = indices[start], indices[end - 1]
            low, high = min(first, last), max(first, last)
            pieces.append(self.slice(name, axis, low, high + 1, step if end - start > 1 else 1))
            start = end
            if len(pieces) > _MOST_PIECES:
                raise self.source.unsupported(f"its indices are more than {_MOST_PIECES} ranges")
        return self.concat(pieces, axis)

    def concat(self, names: Sequence[str], axis: int) -> str:
        return names[0] if len(names) == 1 else self.emit("Concat", *names, axis=axis)

    def tile(self, name: str, repeats: Sequence[int]) -> str:
        for axis, times in enumerate(repeats):
            if times < 1 or times > _MOST_PIECES:
                raise self.source.unsupported(f"an axis is repeated {times} times")
            name = self.concat([name] * times, axis)
        return name

    def reduce(self, op: str, name: str, axes: Sequence[int], *, keep: bool) -> str:
        shape = self.shape(name)
        kept = sorted({self.axis(axis, len(shape)) for axis in axes})
        if kept:
            name = self.emit(op, name, axes=tuple(kept))
        return (
            name
            if keep
            else self.reshape(name, [size for axis, size in enumerate(shape) if axis not in kept])
        )

    def scale_and_bias(self, name: str, scale: Array, bias: Array) -> str:
        """Multiplies and adds a number for each channel (axis 1). Raises ConfigurationError for more or fewer
        numbers."""
        channels = self.shape(name)[1]
        if {scale.size, bias.size} != {channels}:
            raise self.source.unsupported(
                f"{scale.size} scales and {bias.size} biases for {channels} channels"
            )
        sizes = (-1,) + (1,) * (len(self.shape(name)) - 2)
        by = self.graph.constant(scale.reshape(sizes).astype(np.float32), name=f"{name}_scale")
        more = self.graph.constant(bias.reshape(sizes).astype(np.float32), name=f"{name}_bias")
        return self.emit("Add", self.emit("Mul", name, by), more)

    def depth_to_space(self, name: str, block: int, *, columns_first: bool) -> str:
        """Channels-first image: [1, b*b*C, H, W] to [1, C, b*H, b*W]. `columns_first`: ONNX's mode CRD."""
        batch, channels, height, width = self._image(name)
        inner = channels // (block * block)
        if columns_first:
            sizes, order = (batch, inner, block, block, height, width), (0, 1, 4, 2, 5, 3)
        else:
            sizes, order = (batch, block, block, inner, height, width), (0, 3, 4, 1, 5, 2)
        moved = self.transpose(self.reshape(name, sizes), order)
        return self.reshape(moved, (batch, inner, height * block, width * block))

    def space_to_depth(self, name: str, block: int) -> str:
        batch, channels, height, width = self._image(name)
        sizes = (batch, channels, height // block, block, width // block, block)
        moved = self.transpose(self.reshape(name, sizes), (0, 3, 5, 1, 2, 4))
        return self.reshape(moved, (batch, channels * block * block, height // block, width // block))

    def _image(self, name: str) -> tuple[int, int, int, int]:
        shape = self.shape(name)
        if len(shape) != 4:
            raise self.source.unsupported(f"its input has {len(shape)} axes, not 4")
        return (shape[0], shape[1], shape[2], shape[3])

    def layer_norm(self, name: str, axes: Sequence[int], epsilon: float) -> str:
        """(x - mean) / sqrt(variance + epsilon) over axes."""
        if not 0 <= epsilon < math.inf:
            raise self.source.unsupported(f"its epsilon is {epsilon:g}")
        return self.emit("LayerNorm", name, axes=tuple(axes), epsilon=epsilon)

    def pool(
        self, op: str, name: str, attributes: Mapping[str, Attribute], *, ceil: bool, count_padding: bool
    ) -> str:
        """A pool with explicit paddings; `ceil` rounds the number of windows up."""
        pads = [int(pad) for pad in _tuple(attributes["pads"])]
        padded = any(pads)
        if ceil:
            longer = self._ceil_pads(name, attributes, pads)
            if op == "AveragePool" and count_padding and padded and longer != pads:
                # The model's own padding counts, what rounding up adds does not.
                top, left, bottom, right = pads
                name = self.emit(
                    "Pad", name, pads=(0, 0, top, left, 0, 0, bottom, right), mode="constant", value=0.0
                )
                longer = [0, 0, longer[2] - bottom, longer[3] - right]
                count_padding = False
            pads = longer
        further: dict[str, Attribute] = {}
        if op == "AveragePool":
            further["count_padding"] = int(count_padding and padded)
        return self.emit(op, name, **{**attributes, "pads": tuple(pads), **further})

    def _ceil_pads(self, name: str, attributes: Mapping[str, Attribute], pads: list[int]) -> list[int]:
        longer = list(pads)
        kernel, strides = _tuple(attributes["kernel"]), _tuple(attributes["strides"])
        dilations = _tuple(attributes.get("dilations", (1, 1)))
        for axis, size in enumerate(self._image(name)[2:]):
            extent = (int(kernel[axis]) - 1) * int(dilations[axis]) + 1
            step = max(int(strides[axis]), 1)
            free = size + pads[axis] + pads[axis + 2] - extent
            number = -(-free // step) + 1
            # A window that begins in the padding at the end is left out.
            if (number - 1) * step >= size + pads[axis]:
                number -= 1
            longer[axis + 2] = max(pads[axis + 2], (number - 1) * step + extent - size - pads[axis])
        return longer

    def grid(self, scale: Array, zero: Array, kind: str, axis: int = 0) -> Quantization:
        """The grid of a tensor with integers of a type: int8, uint8, int16, uint16 or int32."""
        bits = 8 * np.dtype(kind).itemsize
        shift = 1 << (bits - 1) if kind.startswith("u") else 0
        scales = tuple(float(number) for number in scale.reshape(-1))
        zeros = tuple(int(number) - shift for number in zero.reshape(-1))
        if len(zeros) == 1:
            zeros *= len(scales)
        if not scales or len(zeros) != len(scales) or not all(math.isfinite(s) and s >= 0 for s in scales):
            raise self.source.unsupported(
                f"{len(zeros)} zero points for {len(scales)} scales, or a bad scale"
            )
        return Quantization(scales=scales, zero_points=zeros, axis=axis, bits=bits)


def _tuple(value: Attribute) -> tuple[int | float, ...]:
    assert isinstance(value, tuple)
    return value
