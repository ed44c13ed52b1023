"""ncnn's own format: a graph as text and the numbers of its operators one after another, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError

Numbers = npt.NDArray[Any]

_TYPES: Mapping[int, npt.DTypeLike] = {
    0: np.float32,
    0x0002C056: np.float32,
    0x01306B47: np.float16,
    0x000D4B38: np.int8,
}  # by their marks
_MARKS = {np.dtype(np.float32): 0, np.dtype(np.float16): 0x01306B47, np.dtype(np.int8): 0x000D4B38}
_ALIGNED = 4  # bytes
_REQUANTISES = 100  # is added to the key of int8 where the output is int8, too


@dataclass(kw_only=True)
class Operator:
    """One line of the graph. `words` are what stands behind its tensors, by key, as text."""

    kind: str
    name: str
    inputs: list[str]
    outputs: list[str]
    words: dict[int, str]
    numbers: list[Numbers] = field(default_factory=list)  # in the order of the file

    def whole(self, key: int, absent: int = 0) -> int:
        """The value of a key."""
        return int(self.words.get(key, absent))

    @property
    def line(self) -> str:
        head = [self.kind, self.name, str(len(self.inputs)), str(len(self.outputs))]
        return " ".join([*head, *self.inputs, *self.outputs, *(f"{k}={v}" for k, v in self.words.items())])


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Numbers of an operator. Those with a mark tell their type in front of them."""

    count: int
    marked: bool = False


def read_operators(graph: str) -> list[Operator]:
    """The operators, without their numbers."""
    return [_operator(line) for line in graph.splitlines()[2:] if line.strip()]


def read_network(graph: str, content: bytes) -> list[Operator]:
    """The operators with their numbers. Raises ConfigurationError if both files do not fit together."""
    operators = read_operators(graph)
    place = 0
    try:
        for operator in operators:
            for part in _parts(operator):
                numbers, place = _read(content, place, part)
                operator.numbers.append(numbers)
    except (KeyError, ValueError):
        place = -1
    if place != len(content):
        kinds = ", ".join(sorted({operator.kind for operator in operators} - set(_PARTS)))
        raise ConfigurationError(
            "ncnn's converter wrote more or fewer numbers than the known operators have; others are "
            f"{kinds or 'none'}",
            hint="Use a policy without int8, or --format onnx.",
        )
    return operators


def write_network(operators: Sequence[Operator]) -> tuple[str, bytes]:
    """The graph and the numbers."""
    tensors = len({name for operator in operators for name in (*operator.inputs, *operator.outputs)})
    lines = ["7767517", f"{len(operators)} {tensors}", *(operator.line for operator in operators)]
    content = bytearray()
    for operator in operators:
        for numbers, part in zip(operator.numbers, _parts(operator), strict=True):
            if part.marked:
                content += _MARKS[numbers.dtype].to_bytes(4, "little")
            content += numbers.tobytes()
            content += bytes(-len(content) % _ALIGNED)
    return "\n".join([*lines, ""]), bytes(content)


def _operator(line: str) -> Operator:
    kind, name, inputs, outputs, *rest = line.split()
    first, last = int(inputs), int(inputs) + int(outputs)
    words = (word.partition("=") for word in rest[last:])
    return Operator(
        kind=kind,
        name=name,
        inputs=rest[:first],
        outputs=rest[first:last],
        words={int(key): value for key, _, value in words},
    )


def _read(content: bytes, place: int, part: _Part) -> tuple[Numbers, int]:
    """The numbers at a place, and the place behind them."""
    kind: npt.DTypeLike = np.float32
    if part.marked:
        kind = _TYPES[int.from_bytes(content[place : place + 4], "little")]
        place += 4
    numbers = np.frombuffer(content, kind, part.count, place)
    end = place + numbers.nbytes
    return numbers, end + -end % _ALIGNED


def _parts(operator: Operator) -> Iterator[_Part]:
    found = _PARTS.get(operator.kind)
    return found(operator) if found else iter(())


def _convolution(operator: Operator) -> Iterator[_Part]:
    yield _Part(count=operator.whole(6), marked=True)
    if operator.whole(5):
        yield _Part(count=operator.whole(0))
    if (int8 := operator.whole(8)) and not operator.kind.startswith("De"):
        apart = operator.kind == "ConvolutionDepthWise"
        yield _Part(count=operator.whole(7, 1) if apart else operator.whole(0))
        yield _Part(count=1)
        if int8 > _REQUANTISES:
            yield _Part(count=1)


def _inner_product(operator: Operator) -> Iterator[_Part]:
    yield _Part(count=operator.whole(2), marked=True)
    if operator.whole(1):
        yield _Part(count=operator.whole(0))
    if operator.whole(8):
        yield _Part(count=operator.whole(0))
        yield _Part(count=1)


def _memory(operator: Operator) -> Iterator[_Part]:
    sizes = [max(operator.whole(key), 1) for key in (0, 1, 11, 2)]
    yield _Part(count=int(np.prod(sizes)), marked=not operator.whole(21, 1))


def _slopes(operator: Operator) -> Iterator[_Part]:
    yield _Part(count=operator.whole(0))


def _scale(operator: Operator) -> Iterator[_Part]:
    for _ in range(1 + operator.whole(1)):
        yield _Part(count=operator.whole(0))


def _norm(operator: Operator) -> Iterator[_Part]:
    if operator.whole(2, 1):
        yield from (_Part(count=operator.whole(0)) for _ in range(2))


_PARTS: Mapping[str, Callable[[Operator], Iterator[_Part]]] = {
    "Convolution": _convolution,
    "ConvolutionDepthWise": _convolution,
    "Deconvolution": _convolution,
    "DeconvolutionDepthWise": _convolution,
    "InnerProduct": _inner_product,
    "LayerNorm": _norm,
    "MemoryData": _memory,
    "PReLU": _slopes,
    "Scale": _scale,
}
