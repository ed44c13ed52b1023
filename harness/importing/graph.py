"""The neutral graph: what the readers make from a model, and what the passes and the lowering work on.

Operators are ONNX's where ONNX has them, in their newest form, with every size known and few variants: one
output each, constant parameters as attributes, convolutions with channels first, reductions that
keep their axes. Quantised tensors are real numbers with the grid that they lie on (`Quantization`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError
from harness.importing.folding import folded, moved
from harness.importing.quantization import Quantization
from harness.importing.shapes import output_shape

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]

LARGEST_TENSOR = 1 << 28  # elements: 1 GiB as float32
MOST_NODES = 50_000
MOST_OUTPUTS = 256
MOST_INPUTS = 4096  # of a node
LONGEST_NAME = 1000  # characters: a file has a name once, but many operations may be called after it
# Elements of all constants that may be computed, and for each one that the file has: copies in other orders.
_COMPUTED, _COPIES = 1 << 24, 8
_DESCRIBED = 1 << 20  # numbers of operations after the network, which are written as text


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One value: its shape, its numbers if they are constant, and its grid if it is quantised."""

    name: str
    shape: Shape
    value: Array | None = None
    quantization: Quantization | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a node comes from: the operator and the node's name in the model, for messages."""

    operator: str
    name: str

    def unsupported(self, reason: str, *, hint: str = "") -> ConfigurationError:
        """The error to raise if the node cannot be imported."""
        return ConfigurationError(f"{self.operator} {self.name!r} cannot be imported: {reason}", hint=hint)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """For the translation of the node: raises ConfigurationError where its sizes or options are none
        that the operator can have, such as an empty list or a step of 0."""
        try:
            yield
        except (ArithmeticError, LookupError, ValueError) as error:
            raise self.unsupported(f"its inputs or options do not fit: {error}") from error


@dataclass(eq=False, kw_only=True)
class Node:
    """One operation. Absent inputs are left out: an operator's inputs are told apart by their number."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Attribute]
    source: Source
    absorbed: list[str] = field(default_factory=list)  # operators of the model that became part of it

    def integer(self, key: str, default: int = 0) -> int:
        value = self.attributes.get(key, default)
        assert isinstance(value, int), (key, value)
        return value

    def number(self, key: str, default: float = 0.0) -> float:
        value = self.attributes.get(key, default)
        assert isinstance(value, int | float), (key, value)
        return float(value)

    def text(self, key: str, default: str = "") -> str:
        value = self.attributes.get(key, default)
        assert isinstance(value, str), (key, value)
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        value = self.attributes[key]
        assert isinstance(value, tuple), (key, value)
        return tuple(int(number) for number in value)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """An operation after the network, such as non-maximum suppression, that the graph does not contain."""

    operator: str
    name: str
    inputs: tuple[str, ...]  # names of the graph's outputs that it reads
    attributes: Mapping[str, object]
    constants: Mapping[str, Array]  # such as anchors


@dataclass(kw_only=True)
class Graph:
    """Nodes and tensors, with who makes and who reads each tensor."""

    input: str = ""  # of pictures
    more_inputs: list[str] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)  # name in the model, tensor
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)
    producer: dict[str, Node] = field(default_factory=dict)
    readers: dict[str, dict[Node, None]] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)  # what the model says about itself
    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # mean, deviation of pixels
    _names: int = 0
    _named: dict[str, str] = field(default_factory=dict)  # made-up names: the model's before them
    _free: int = _COMPUTED  # elements of constants that may still be computed

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def value(self, name: str) -> Array | None:
        return self.tensors[name].value

    def quantization(self, name: str) -> Quantization | None:
        return self.tensors[name].quantization

    def users(self, name: str) -> list[Node]:
        """The nodes that read a tensor."""
        return list(self.readers.get(name, ()))

    def is_output(self, name: str) -> bool:
        return any(tensor == name for _, tensor in self.outputs)

    def only_user(self, name: str) -> Node | None:
        """The node that reads a tensor, if it is read once and is no output of the graph."""
        users = self.users(name)
        alone = len(users) == 1 and users[0].inputs.count(name) == 1 and not self.is_output(name)
        return users[0] if alone else None

    def add_tensor(self, tensor: Tensor) -> str:
        self.tensors[tensor.name] = tensor
        return tensor.name

    def constant(
        self,
        value: Array,
        *,
        name: str = "",
        quantization: Quantization | None = None,
        stored: bool = False,
    ) -> str:
        """Adds a constant and returns its name; `stored`: the file has its numbers.

        Raises ConfigurationError if the computed ones are too large together.
        """
        value = np.asarray(value)
        self.spend(-_COPIES * value.size if stored else value.size)
        return self.add_tensor(
            Tensor(
                name=self.fresh(name or "constant"),
                shape=value.shape,
                value=value,
                quantization=quantization,
            )
        )

    def spend(self, elements: int) -> None:
        """Counts the elements of a constant that is computed.

        Raises ConfigurationError if all of them are far more than the file has.
        """
        self._free -= elements
        if self._free < 0:
            raise ConfigurationError("the model computes constants that are far larger than the file")

    def cut(self, cut: Cut) -> None:
        """Adds an operation after the network. Raises ConfigurationError if its constants are too large."""
        self.cuts.append(cut)
        if sum(value.size for one in self.cuts for value in one.constants.values()) > _DESCRIBED:
            source = Source(operator=cut.operator, name=cut.name)
            raise source.unsupported(f"its constants have more than {_DESCRIBED} numbers")

    def emit(
        self,
        op: str,
        inputs: Iterable[str],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        source: Source,
        name: str = "",
        quantization: Quantization | None = None,
    ) -> str:
        """Adds a node and returns the name of its output, which is `name` where that is free.

        An operator on constants gives a constant. Raises ConfigurationError if the inputs' shapes do not fit
        the operator.
        """
        inputs, attributes = list(inputs), dict(attributes or {})
        if len(inputs) > MOST_INPUTS:
            raise source.unsupported(f"it has {len(inputs)} inputs; {MOST_INPUTS} are possible")
        try:
            shape = output_shape(op, [self.shape(tensor) for tensor in inputs], attributes)
        except ValueError as error:
            raise source.unsupported(str(error)) from None
        check_size(shape, source)
        constants = [self.tensors[tensor].value for tensor in inputs]
        if known := [value for value in constants if value is not None]:
            foldable = len(known) == len(constants) and math.prod(shape) <= self._free
            value = folded(op, known, attributes) if foldable else None
            if value is not None:
                before = self.quantization(inputs[0])
                grid = quantization or (moved(op, before, attributes) if before else None)
                return self.constant(value, name=name, quantization=grid)
        output = self.fresh(name) if name else self._made_up(inputs[0], op)
        self.add_tensor(Tensor(name=output, shape=shape, quantization=quantization))
        node = Node(op=op, inputs=inputs, output=output, attributes=attributes, source=source)
        self.insert(node)
        return output

    def _made_up(self, name: str, op: str) -> str:
        """A name for a tensor that the model has no name for: the last one that it has, and the operator."""
        named = self._named.get(name, name)
        found = self.fresh(f"{named}_{op}")
        self._named[found] = named
        return found

    def insert(self, node: Node) -> None:
        self.nodes[node] = None
        self.producer[node.output] = node
        for tensor in node.inputs:
            self.readers.setdefault(tensor, {})[node] = None
        if len(self.nodes) > MOST_NODES:
            raise ConfigurationError(f"the model has more than {MOST_NODES} operations")

    def fresh(self, wanted: str) -> str:
        """A name that no tensor has."""
        name = wanted = wanted[:LONGEST_NAME]
        while not name or name in self.tensors:
            self._names += 1
            name = f"{wanted}_{self._names}"
        return name

    def newest(self, count: int) -> frozenset[str]:
        """The outputs of the nodes that were added last."""
        return frozenset(node.output for node in islice(reversed(self.nodes), count))

    def rename(self, old: str, new: str) -> str:
        """Renames the output of a node, if the name is free, and returns its name."""
        if not new or new in self.tensors:
            return old
        node = self.producer.pop(old)
        self.add_tensor(replace(self.tensors.pop(old), name=new))
        self.replace(old, new)
        node.output = new
        self.producer[new] = node
        return new

    def set_inputs(self, node: Node, inputs: Iterable[str]) -> None:
        before, node.inputs = set(node.inputs), list(inputs)
        after = set(node.inputs)
        for tensor in before - after:
            self.readers.get(tensor, {}).pop(node, None)
        for tensor in after - before:
            self.readers.setdefault(tensor, {})[node] = None

    def reshape_output(self, node: Node) -> None:
        """Computes the shape of a node's output again, after a change of its inputs."""
        shape = output_shape(node.op, [self.shape(name) for name in node.inputs], node.attributes)
        self.tensors[node.output] = replace(self.tensors[node.output], shape=shape)

    def replace(self, old: str, new: str) -> None:
        """All that read one tensor read another one from now on."""
        for node in self.users(old):
            self.set_inputs(node, [new if tensor == old else tensor for tensor in node.inputs])
        self.outputs = [(name, new if tensor == old else tensor) for name, tensor in self.outputs]

    def remove(self, node: Node) -> None:
        del self.nodes[node]
        if self.producer.get(node.output) is node:
            del self.producer[node.output]
        for tensor in node.inputs:
            self.readers.get(tensor, {}).pop(node, None)

    def absorb(self, node: Node, follower: Node) -> None:
        """`node` computes the output of `follower` from now on, which is removed."""
        node.absorbed += [follower.source.operator, *follower.absorbed]
        self.take_over(node, follower)

    def take_over(self, node: Node, follower: Node) -> None:
        """The same without a note in the table of what became what."""
        self.remove(follower)
        del self.producer[node.output]
        node.output = follower.output
        self.producer[node.output] = node

    def annotate(self, name: str, quantization: Quantization | None) -> None:
        self.tensors[name] = replace(self.tensors[name], quantization=quantization)

    def prune(self) -> None:
        """Removes the nodes and tensors that no output needs."""
        needed: set[str] = set()
        pending = [tensor for _, tensor in self.outputs]
        while pending:
            tensor = pending.pop()
            if tensor not in needed:
                needed.add(tensor)
                if tensor in self.producer:
                    pending += self.producer[tensor].inputs
        for node in [node for node in self.nodes if node.output not in needed]:
            self.remove(node)
        kept = needed | {self.input}
        self.tensors = {name: tensor for name, tensor in self.tensors.items() if name in kept}

    def ordered(self) -> list[Node]:
        """The nodes, each after those that it reads; in the order of the model where that is free."""
        place = {node: index for index, node in enumerate(self.nodes)}
        missing = {
            node: len({tensor for tensor in node.inputs if tensor in self.producer}) for node in self.nodes
        }
        by_place = list(self.nodes)
        ready = [place[node] for node, number in missing.items() if number == 0]
        heapq.heapify(ready)
        found: list[Node] = []
        while ready:
            node = by_place[heapq.heappop(ready)]
            found.append(node)
            for user in self.users(node.output):
                missing[user] -= 1
                if missing[user] == 0:
                    heapq.heappush(ready, place[user])
        if len(found) < len(self.nodes):
            raise ConfigurationError("the model's operations form a circle")
        return found


def can_be_held(shape: Shape) -> bool:
    """Whether a board, and NumPy, could hold a tensor. NumPy limits axes beside an empty one, too."""
    return min(shape, default=0) >= 0 and math.prod(max(size, 1) for size in shape) <= LARGEST_TENSOR


def check_size(shape: Shape, source: Source) -> None:
    """Raises ConfigurationError for a tensor that no board could hold."""
    if not can_be_held(shape):
        size = "x".join(map(str, shape))
        raise source.unsupported(f"its output {size} has more than {LARGEST_TENSOR} elements")
