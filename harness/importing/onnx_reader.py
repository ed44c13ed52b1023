"""Reads an ONNX model into a neutral graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError
from harness.importing.builder import Builder
from harness.importing.graph import Cut, Graph, Shape, Source, Tensor
from harness.importing.input_shape import IMAGE_CHANNELS, checked_input_shape, picture_among
from harness.importing.onnx_constants import constant_value
from harness.importing.onnx_file import numbers_of, opset_of, read_onnx_model
from harness.importing.onnx_operator import Operator, plain_attributes
from harness.importing.onnx_operators import OPERATORS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

_MOST_AXES = 5
_REAL = (0, 1, 10, 11, 16)  # TensorProto's types of floating-point numbers
_DEEPEST = 8  # branches within branches
_DOMAINS = ("", "ai.onnx", "com.microsoft")
# Operators after a network: how many boxes remain depends on the picture.
_CUT = frozenset(
    [
        "ArgMax",
        "ArgMin",
        "BatchedNMS_TRT",
        "EfficientNMS_TRT",
        "GatherElements",
        "GatherND",
        "NonMaxSuppression",
        "NonZero",
        "TopK",
        "Unique",
    ]
)


def read_onnx(path: Path, input_shape: Shape | None = None) -> Graph:
    """Reads a file. Raises ConfigurationError if it is damaged or cannot be imported."""
    return graph_of(read_onnx_model(path), str(path), path.parent, input_shape)


def graph_of(
    model: ModelProto, file: str, folder: Path | None = None, input_shape: Shape | None = None
) -> Graph:
    """The same for a decoded file; `folder`: where its external data may lie."""
    reader = _Reader(file=file, folder=folder, opset=opset_of(model))
    reader.graph.metadata = {entry.key: entry.value for entry in model.metadata_props}
    reader.constants(model.graph)
    reader.inputs(model.graph, input_shape)
    reader.nodes(_needed(model.graph))
    reader.outputs(model.graph)
    return reader.graph


def _needed(graph: GraphProto) -> list[NodeProto]:
    """The nodes that the outputs depend on, in the model's order."""
    producer = {name: node for node in graph.node for name in node.output if name}
    pending = [output.name for output in graph.output]
    needed: set[int] = set()
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in producer:
            continue
        seen.add(name)
        node = producer[name]
        needed.add(id(node))
        pending += list(node.input)
        if any(attribute.HasField("g") for attribute in node.attribute):
            pending += [
                name for attribute in node.attribute for inner in attribute.g.node for name in inner.input
            ]
    return [node for node in graph.node if id(node) in needed]


@dataclass(kw_only=True)
class _Reader:
    file: str
    folder: Path | None
    opset: int
    graph: Graph = field(default_factory=Graph)
    values: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)  # tensors after the network
    crossing: dict[str, str] = field(default_factory=dict)  # what they are computed from
    cut: list[NodeProto] = field(default_factory=list)

    def constants(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            value = numbers_of(tensor, self.folder, self.file)
            self.values[tensor.name] = self.graph.constant(value, name=tensor.name, stored=True)

    def inputs(self, graph: GraphProto, wanted: Shape | None) -> None:
        """Declares the network's inputs; weights may be listed among the inputs, too."""
        inputs = [info for info in graph.input if info.name not in self.values]
        if not inputs:
            raise ConfigurationError(f"{self.file}: the model has no input")
        picture = inputs[picture_among([_declared(info) for info in inputs])]
        self.graph.input = self._input(picture, wanted, self.graph.metadata.get("imgsz", ""))
        if picture.type.tensor_type.elem_type not in _REAL:
            self.graph.normalization = ((0.0,), (1.0,))  # the bytes of the picture
        self.graph.more_inputs = [self._input(info, None, "") for info in inputs if info is not picture]

    def _input(self, info: ValueInfoProto, wanted: Shape | None, size: str) -> str:
        source = Source(operator="the input", name=info.name)
        shape = _declared(info)
        last = len(shape) == 4 and shape[3] in IMAGE_CHANNELS and shape[1] not in IMAGE_CHANNELS
        shape = (shape[0], shape[3], shape[1], shape[2]) if last else shape
        shape = checked_input_shape(_sized(shape, size), wanted, source)
        tensor = self.graph.add_tensor(Tensor(name=self.graph.fresh(info.name or "input"), shape=shape))
        builder = Builder(graph=self.graph, source=source)
        self.values[info.name] = builder.transpose(tensor, (0, 2, 3, 1)) if last else tensor
        return tensor

    def nodes(self, nodes: Iterable[NodeProto], depth: int = 0) -> None:
        for node in nodes:
            source = Source(operator=node.op_type, name=node.name or (node.output[0] if node.output else ""))
            after = any(name in self.missing for name in node.input)
            if after or (node.op_type in _CUT and not self._constant_inputs(node)):
                self._cut_off(node)
            elif node.op_type == "If" and depth < _DEEPEST:
                self._branch(node, source, depth)
            else:
                self._translate(node, source)

    def _constant_inputs(self, node: NodeProto) -> bool:
        return all(
            name in self.values and self.graph.value(self.values[name]) is not None
            for name in node.input
            if name
        )

    def _cut_off(self, node: NodeProto) -> None:
        self.missing.update(name for name in node.output if name)
        if not any(name in self.missing for name in node.input):
            self.cut.append(node)
        for name in node.input:
            if name in self.values and self.graph.value(self.values[name]) is None:
                self.crossing[name] = self.values[name]

    def _branch(self, node: NodeProto, source: Source, depth: int) -> None:
        """The branch that a constant condition chooses."""
        read = self.values.get(node.input[0]) if node.input else None
        condition = None if read is None else self.graph.value(read)
        if condition is None or condition.size != 1:
            raise source.unsupported("its condition is computed by the network, or is none")
        chosen = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        branch = next((attribute.g for attribute in node.attribute if attribute.name == chosen), None)
        if branch is None:
            raise source.unsupported(f"it has no {chosen}")
        self.constants(branch)
        self.nodes(branch.node, depth + 1)
        for name, inner in zip(node.output, branch.output, strict=False):
            if inner.name in self.values:
                self.values[name] = self.values[inner.name]

    def _translate(self, node: NodeProto, source: Source) -> None:
        for name in node.input:
            if name and name not in self.values:
                raise source.unsupported(
                    f"it reads {name!r}, which no operation before it computes",
                    hint="The operations form a circle, or the file is damaged.",
                )
        operator = Operator(
            node=node,
            values=self.values,
            builder=Builder(graph=self.graph, source=source),
            opset=self.opset,
            file=self.file,
            folder=self.folder,
        )
        before = len(self.graph.nodes)
        with source.checked():
            found = _translated(operator)
        made = self.graph.newest(len(self.graph.nodes) - before)
        for name, tensor in zip(node.output, found, strict=False):
            self.values[name] = self.graph.rename(tensor, name) if tensor in made else tensor

    def outputs(self, graph: GraphProto) -> None:
        """Names the outputs; what post-processing reads becomes an output as well."""
        for output in graph.output:
            if output.name in self.values:
                self.graph.outputs.append((output.name, self.values[output.name]))
            elif output.name not in self.missing:
                raise ConfigurationError(f"{self.file}: no operation computes the output {output.name!r}")
        known = {tensor for _, tensor in self.graph.outputs}
        for name, tensor in self.crossing.items():
            if tensor not in known:
                self.graph.outputs.append((name, tensor))
        for node in self.cut:
            constants = {
                name: value
                for name in node.input
                if name in self.values and (value := self.graph.value(self.values[name])) is not None
            }
            self.graph.cut(
                Cut(
                    operator=node.op_type,
                    name=node.name or node.output[0],
                    inputs=tuple(name for name in node.input if name in self.crossing),
                    attributes=plain_attributes(node),
                    constants=constants,
                )
            )


def _translated(operator: Operator) -> Sequence[str]:
    """The tensors that a node makes."""
    found = constant_value(operator)
    if found is not None:
        return found
    node = operator.node
    translate = OPERATORS.get(node.op_type) if node.domain in _DOMAINS else None
    if translate is None:
        domain = f" of {node.domain}" if node.domain else ""
        raise operator.unsupported(f"this operator{domain} is not supported")
    return translate(operator)


def _sized(shape: Shape, size: str) -> Shape:
    """An image's shape with the size that Ultralytics' metadata names, where the model leaves it open."""
    found = re.fullmatch(r"\[(\d{1,5}), (\d{1,5})\]", size)
    if len(shape) != 4 or found is None or shape[2] > 0 or shape[3] > 0:
        return shape
    return (shape[0], shape[1] or 3, int(found[1]), int(found[2]))


def _declared(info: ValueInfoProto) -> Shape:
    """The declared shape; sizes that are left open are 0."""
    dims = info.type.tensor_type.shape.dim
    return tuple(max(int(dim.dim_value), 0) for dim in list(dims)[: _MOST_AXES + 1])
