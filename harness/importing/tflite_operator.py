"""One operator of a TensorFlow Lite model with what its translation needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.importing.builder import Builder
from harness.importing.graph import Shape, Source
from harness.importing.tflite_file import FlatModel, FlatOperator, FlatTensor

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)

_SAME = 0
_ACTIVATIONS: Mapping[int, tuple[str, Mapping[str, float]]] = {
    0: ("", {}),
    1: ("Relu", {}),
    2: ("Clip", {"min": -1.0, "max": 1.0}),
    3: ("Clip", {"min": 0.0, "max": 6.0}),
    4: ("Tanh", {}),
}


@dataclass(kw_only=True)
class Operator:
    """An operator, and the graph's tensors by the file's indices."""

    model: FlatModel
    operator: FlatOperator
    values: Mapping[int, str]
    builder: Builder
    dilation: Mapping[str, tuple[int, ...]] | None = None

    @property
    def inputs(self) -> list[str]:
        """All inputs that are present."""
        return [looked_up(self.operator, self.values, index) for index in self.operator.inputs if index >= 0]

    def input(self, number: int) -> str:
        """An input that must be present."""
        if not self.has(number):
            raise self.builder.source.unsupported(f"it has no input {number}")
        return looked_up(self.operator, self.values, self.operator.inputs[number])

    def has(self, number: int) -> bool:
        return number < len(self.operator.inputs) and self.operator.inputs[number] >= 0

    def flat(self, number: int) -> FlatTensor:
        """An input as the file declares it."""
        return self.model.tensors[self.operator.inputs[number]]

    def option(self, name: str, default: Any = 0) -> Any:
        return self.operator.options.get(name, default)

    def integers(self, number: int, what: str) -> tuple[int, ...]:
        """A constant input."""
        return self.builder.integers(self.input(number), what)

    def first(self, name: str) -> str:
        """An image with its channels before its rows and columns."""
        if len(self.builder.shape(name)) != 4:
            raise self.builder.source.unsupported(f"its input has the shape {self.builder.shape(name)}")
        return self.builder.transpose(name, TO_FIRST)

    def last(self, name: str) -> str:
        """An image with its channels last again."""
        return self.builder.transpose(name, TO_LAST)

    def activated(self, name: str) -> str:
        """After the activation that is fused into the operator."""
        number = self.option("FusedActivationFunction")
        known = _ACTIVATIONS.get(number)
        if known is None:
            raise self.builder.source.unsupported(f"the fused activation {number} is not supported")
        op, attributes = known
        if not op:
            return name
        return self.builder.emit(op, name, **attributes)

    def pads(
        self, image: Shape, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
    ) -> tuple[int, ...]:
        """Top, left, bottom, right, by the option PADDING; `image` is channels-first."""
        if self.option("Padding") != _SAME:
            return (0, 0, 0, 0)
        before, after = [], []
        for size, extent, step, spread in zip(image[2:], kernel, strides, dilations, strict=True):
            number = -(-size // max(step, 1))
            total = max((number - 1) * step + (extent - 1) * spread + 1 - size, 0)
            before.append(total // 2)
            after.append(total - total // 2)
        return (*before, *after)


def looked_up(operator: FlatOperator, values: Mapping[int, str], index: int) -> str:
    """The graph's tensor of an input."""
    if index not in values:
        raise Source(operator=operator.name, name=str(index)).unsupported(
            "it reads a tensor that no operator before it computes"
        )
    return values[index]


def real_numbers(tensor: FlatTensor) -> npt.NDArray[Any]:
    """A constant's numbers; those on a grid as float32, other integers as they are."""
    assert tensor.data is not None
    data = tensor.data.astype(tensor.data.dtype.newbyteorder("="))
    if data.dtype.kind == "f":
        return data.astype(np.float32)
    if not tensor.scales or data.dtype == np.bool_:
        return data
    sizes = [1] * data.ndim
    if len(tensor.scales) > 1:
        if not 0 <= tensor.axis < data.ndim or data.shape[tensor.axis] != len(tensor.scales):
            raise Source(operator="the constant", name=tensor.name).unsupported(
                f"{len(tensor.scales)} scales for the shape {tensor.shape}"
            )
        sizes[tensor.axis] = len(tensor.scales)
    scale = np.array(tensor.scales).reshape(sizes) if data.ndim else np.array(tensor.scales[0])
    zero = np.array(tensor.zero_points).reshape(sizes) if data.ndim else np.array(tensor.zero_points[0])
    with np.errstate(over="ignore"):  # of a damaged file
        return np.asarray((data.astype(np.float64) - zero) * scale).astype(np.float32)
