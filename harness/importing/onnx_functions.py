"""Writes the functions of an ONNX model in the place of the nodes that call them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

_DEEPEST = 64  # functions within functions
_NODE_BYTES = 1024  # about what a node takes in memory beside its content
_LARGEST = 1 << 26  # bytes that functions may add


def inlined(model: ModelProto, file: str) -> ModelProto:
    """A model without functions. Raises ConfigurationError if that is impossible, or far larger."""
    from onnx import inliner

    functions = {(_domain(function.domain), function.name): function for function in model.functions}
    size = _Sizes(functions=functions, file=file).of(model.graph.node, depth=0)
    # Functions that call one another twice are a model of any size in a small file.
    if size > _LARGEST + model.ByteSize() + _NODE_BYTES * len(model.graph.node):
        raise ConfigurationError(f"{file}: its functions make the model far larger than the file")
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # noqa: BLE001 - the library does not say what it raises
        raise ConfigurationError(f"{file}: its functions cannot be inlined: {error}") from None


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


@dataclass(kw_only=True)
class _Sizes:
    """Counts the bytes of nodes with those of the functions that they call."""

    functions: dict[tuple[str, str], FunctionProto]
    file: str
    known: dict[tuple[str, str], int] = field(default_factory=dict)

    def of(self, nodes: Iterable[NodeProto], depth: int) -> int:
        if depth > _DEEPEST:
            raise ConfigurationError(
                f"{self.file}: its functions call one another in a circle, or more than {_DEEPEST} deep"
            )
        return sum(self._node(node, depth) for node in nodes)

    def _node(self, node: NodeProto, depth: int) -> int:
        key = (_domain(node.domain), node.op_type)
        if key in self.functions and key not in self.known:
            self.known[key] = self.of(self.functions[key].node, depth + 1)
        branches = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        branches += [branch for attribute in node.attribute for branch in attribute.graphs]
        inner = sum(self.of(branch.node, depth) for branch in branches)
        return int(node.ByteSize()) + _NODE_BYTES + self.known.get(key, 0) + inner
