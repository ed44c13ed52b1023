"""One node of an ONNX model with what its translation needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.importing.builder import Builder
from harness.importing.onnx_file import Array, numbers_of

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto


@dataclass(kw_only=True)
class Operator:
    """A node, and the graph's tensors by the model's names."""

    node: NodeProto
    values: Mapping[str, str]
    builder: Builder
    opset: int
    file: str
    folder: Path | None = None

    @property
    def inputs(self) -> list[str]:
        """All inputs that are present."""
        return [self.values[name] for name in self.node.input if name]

    def has(self, number: int) -> bool:
        return number < len(self.node.input) and bool(self.node.input[number])

    def input(self, number: int) -> str:
        """An input that must be present."""
        if not self.has(number):
            raise self.builder.source.unsupported(f"it has no input {number}")
        return self.values[self.node.input[number]]

    def rank(self, number: int = 0) -> int:
        return len(self.builder.shape(self.input(number)))

    def _attribute(self, name: str) -> AttributeProto | None:
        return next((attribute for attribute in self.node.attribute if attribute.name == name), None)

    def has_attribute(self, name: str) -> bool:
        return self._attribute(name) is not None

    def integer(self, name: str, default: int = 0) -> int:
        found = self._attribute(name)
        return default if found is None else int(found.i)

    def number(self, name: str, default: float = 0.0) -> float:
        found = self._attribute(name)
        return default if found is None else float(found.f)

    def text(self, name: str, default: str = "") -> str:
        found = self._attribute(name)
        return default if found is None else found.s.decode("utf-8", "replace")

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        found = self._attribute(name)
        return tuple(default) if found is None else tuple(int(value) for value in found.ints)

    def numbers(self, name: str) -> tuple[float, ...]:
        found = self._attribute(name)
        return () if found is None else tuple(float(value) for value in found.floats)

    def tensor(self, name: str) -> Array | None:
        """The value of a tensor among the attributes."""
        found = self._attribute(name)
        return None if found is None else numbers_of(found.t, self.folder, self.file)

    def integers_at(self, number: int, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """A list that is an input in newer opsets and an attribute in older ones."""
        if self.has(number):
            return self.builder.integers(self.input(number), f"the input {name!r}")
        return self.integers(name, default)

    def axis(self, name: str = "axis", default: int = 0) -> int:
        return self.builder.axis(self.integer(name, default), self.rank())

    def unsupported(self, reason: str) -> Exception:
        return self.builder.source.unsupported(reason)


def plain_attributes(node: NodeProto) -> dict[str, object]:
    """The numbers, words and lists among a node's attributes."""
    found: dict[str, object] = {}
    for attribute in node.attribute:
        value: Any
        match attribute.type:
            case 1:
                value = float(attribute.f)
            case 2:
                value = int(attribute.i)
            case 3:
                value = attribute.s.decode("utf-8", "replace")
            case 6:
                value = [float(number) for number in attribute.floats]
            case 7:
                value = [int(number) for number in attribute.ints]
            case _:
                continue
        found[attribute.name] = value
    return found
