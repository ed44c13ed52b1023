"""The sections of a cfg while they are written, and how tensors of any rank become their CHW shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.importing.graph import LONGEST_NAME, Array, Graph, Node, Shape
from harness.importing.quantization import Quantization

Chw = tuple[int, int, int]
AXES = ("channels", "height", "width")

_UNFIT = re.compile(r"[\s,#;=\[\]\x00-\x20\x7f-\U0010ffff]")
_BEGINNING = re.compile(r"[A-Za-z_]")


@dataclass(kw_only=True)
class Section:
    """One layer: its keys without `name` and `from`, and its part of the weights file."""

    kind: str
    name: str
    inputs: list[str]  # names of sections, or of the network's input
    shape: Chw
    keys: list[tuple[str, str]]
    weights: list[npt.NDArray[np.float32]] = field(default_factory=list)
    grid: Quantization | None = None  # of the output
    weight_scales: tuple[float, ...] = ()
    operators: tuple[str, ...] = ()  # of the model, that it stands for
    multiply_adds: int = 0


@dataclass(kw_only=True)
class Sections:
    """All sections so far, and where each tensor of the graph is computed."""

    graph: Graph
    input: str
    input_shape: Chw
    found: list[Section] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    requantised: list[tuple[int, int]] = field(default_factory=list)  # channels of a layer, of how many
    _shapes: dict[str, Chw] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)
    _views: dict[tuple[str, Chw], str] = field(default_factory=dict)
    _grids: dict[str, Quantization | None] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)  # of sections that share a name

    @classmethod
    def of(cls, graph: Graph) -> Sections:
        """No sections yet, and the input."""
        shape = natural(graph.shape(graph.input))
        name = safe_name(graph.input)
        sections = cls(graph=graph, input=name, input_shape=shape)
        sections._shapes = {name: shape, "input": shape}  # which every cfg's input is called, too
        sections._places[graph.input] = name
        sections._grids[name] = graph.quantization(graph.input)
        for tensor in graph.more_inputs:
            if graph.users(tensor) or graph.is_output(tensor):
                sections._add_input(tensor)
        return sections

    def all_warnings(self) -> tuple[str, ...]:
        """All warnings; those about single channels of many layers as one."""
        if not self.requantised:
            return tuple(self.warnings)
        channels, of = (sum(numbers) for numbers in zip(*self.requantised, strict=True))
        again = (
            f"weights of {channels} of {of} channels in {len(self.requantised)} layers are further than 127 "
            "steps from their zero point: these channels are quantised again, with scales of their own"
        )
        return (*self.warnings, again)

    def place(self, tensor: str, shape: Chw | None = None) -> str:
        """The section that computes a tensor; with a shape, one with that view of it."""
        value = self.graph.value(tensor)
        if value is not None:
            return self._constant(tensor, value, shape or natural(value.shape))
        section = self._places[tensor]
        if shape is None or self._shapes[section] == shape:
            return section
        return self._view(section, shape)

    def shape(self, section: str) -> Chw:
        return self._shapes[section]

    def alias(self, tensor: str, other: str) -> None:
        """Another tensor with the same numbers in the same order."""
        value = self.graph.value(other)
        self._places[tensor] = self.place(other) if value is not None else self._places[other]

    def add(
        self,
        kind: str,
        node: Node,
        inputs: Sequence[str],
        shape: Chw,
        *keys: tuple[str, object],
        weights: Sequence[Array] = (),
        weight_scales: tuple[float, ...] = (),
        multiply_adds: int = 0,
    ) -> str:
        """Adds the section of a node, which computes the node's output."""
        name = self._append(
            kind,
            node.output,
            list(inputs),
            shape,
            [(key, _text(value)) for key, value in keys],
            weights=[np.ascontiguousarray(part, np.float32) for part in weights],
            weight_scales=weight_scales,
            multiply_adds=multiply_adds,
            grid=self.graph.quantization(node.output),
            operators=(node.source.operator, *node.absorbed),
        )
        self._places[node.output] = name
        return name

    def copy(self, section: str) -> str:
        """A section that passes another one on, or the network's input, for one more output of the same."""
        return self._append(
            "activation",
            f"{section}_copy",
            [section],
            self._shapes[section],
            [("activation", "linear")],
            grid=self._grids[section],
        )

    def rename(self, section: str, name: str) -> str:
        """Names a section after an output of the model, if no other one has the name; returns its name.

        No section is added afterwards.
        """
        wanted = safe_name(name)
        if wanted in self._shapes:
            return section
        for found in self.found:
            found.name = wanted if found.name == section else found.name
            found.inputs = [wanted if source == section else source for source in found.inputs]
        self._shapes[wanted] = self._shapes.pop(section)
        self._grids[wanted] = self._grids.pop(section)
        return wanted

    def grid(self, section: str) -> Quantization | None:
        return self._grids.get(section)

    def _append(
        self,
        kind: str,
        name: str,
        inputs: list[str],
        shape: Chw,
        keys: list[tuple[str, str]],
        *,
        grid: Quantization | None,
        weights: list[npt.NDArray[np.float32]] | None = None,
        weight_scales: tuple[float, ...] = (),
        multiply_adds: int = 0,
        operators: tuple[str, ...] = (),
    ) -> str:
        name = self._free(safe_name(name))
        self.found.append(
            Section(
                kind=kind,
                name=name,
                inputs=inputs,
                shape=shape,
                keys=keys,
                weights=weights or [],
                grid=grid,
                weight_scales=weight_scales,
                operators=operators,
                multiply_adds=multiply_adds,
            )
        )
        self._shapes[name] = shape
        self._grids[name] = grid
        return name

    def _add_input(self, tensor: str) -> None:
        shape = natural(self.graph.shape(tensor))
        self._places[tensor] = self._append(
            "input", tensor, [], shape, _sizes(shape),
            grid=self.graph.quantization(tensor), operators=("input",),
        )  # fmt: skip

    def _free(self, name: str) -> str:
        """The name, or the first one of name_2, name_3, ... that no section has."""
        wanted = name
        while name in self._shapes:
            self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            name = f"{wanted}_{self._numbers[wanted]}"
        return name

    def _view(self, section: str, shape: Chw) -> str:
        if (section, shape) not in self._views:
            self._views[section, shape] = self._append(
                "reshape", f"{section}_as_{'x'.join(map(str, shape))}", [section], shape, _sizes(shape),
                grid=self._grids.get(section),
            )  # fmt: skip
        return self._views[section, shape]

    def _constant(self, tensor: str, value: Array, shape: Chw) -> str:
        if (tensor, shape) not in self._views:
            grid = self.graph.quantization(tensor)
            self._views[tensor, shape] = self._append(
                "constant", tensor, [], shape, _sizes(shape),
                grid=grid if grid and grid.per_tensor else None,
                weights=[np.ascontiguousarray(value, np.float32).reshape(shape)],
                operators=("constant",),
            )  # fmt: skip
        return self._views[tensor, shape]


def natural(shape: Shape) -> Chw:
    """The CHW shape of a tensor: its batch of one dropped, [A, B] as A channels of B columns."""
    sizes = shape[1:] if len(shape) > 1 and shape[0] == 1 else shape
    match len(sizes):
        case 0:
            return (1, 1, 1)
        case 1:
            return (sizes[0], 1, 1)
        case 2:
            return (sizes[0], 1, sizes[1])
        case _:
            return (sizes[0], math.prod(sizes[1:-1]), sizes[-1])


def axis_places(shape: Shape) -> dict[int, int] | None:
    """Which of C, H and W each axis is in the natural view: axis -> 0, 1 or 2; None if axes are merged."""
    first = 1 if len(shape) > 1 and shape[0] == 1 else 0
    places: dict[int, tuple[int, ...]] = {0: (), 1: (0,), 2: (0, 2), 3: (0, 1, 2)}
    number = len(shape) - first
    if number not in places:
        return None
    return {first + place: axis for place, axis in enumerate(places[number])}


def around(shape: Shape, axis: int) -> Chw:
    """The axes before one axis, itself, and those behind it."""
    return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def safe_name(name: str) -> str:
    """A name that a cfg can have: without blanks and the language's own characters, a letter first."""
    found = _UNFIT.sub("_", name[:LONGEST_NAME]).lstrip("/") or "tensor"
    if _BEGINNING.match(found):
        return found
    return f"t{found}"


def _sizes(shape: Chw) -> list[tuple[str, str]]:
    """The keys of a section that names its shape."""
    return [(axis, str(size)) for axis, size in zip(AXES, shape, strict=True)]


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple | list):
        return ",".join(map(_text, value))
    return str(value)
