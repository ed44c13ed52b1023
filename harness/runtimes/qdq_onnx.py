"""ONNX files with QuantizeLinear and DequantizeLinear around layers: these layers, and a file in float."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_WEIGHTED = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True, kw_only=True)
class QuantisedLayer:
    """A convolution or matrix product in int8.

    `weights`: as real numbers, output channels first. `steps`: of the weights of an output channel.
    `largest`: that the input's grid holds, without its sign.
    """

    name: str
    weights: Floats
    steps: Floats
    largest: float


def in_float(path: Path, folder: Path) -> tuple[Path, list[QuantisedLayer]]:
    """A copy of a model in `folder` that computes in float what the model computes on grids, and the layers
    that are int8 in the model. Constants are those of the grids.

    Raises ConfigurationError for a form that cannot be read.
    """
    import onnx

    model = onnx.load(str(path))
    graph = model.graph
    reader = _Reader(graph, path.name)
    layers = [layer for node in graph.node if (layer := reader.layer(node))]
    reader.remove_conversions()
    copy = folder / path.name
    copy.write_bytes(model.SerializeToString())
    return copy, layers


class _Reader:
    def __init__(self, graph: GraphProto, file: str) -> None:
        from onnx import numpy_helper

        self._graph = graph
        self._file = file
        self._constants: dict[str, Array] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self._makers = {name: node for node in graph.node for name in node.output}

    def layer(self, node: NodeProto) -> QuantisedLayer | None:
        """A node as a layer in int8; None if it is none."""
        if node.op_type not in _WEIGHTED:
            return None
        given, weights = (self._makers.get(name) for name in node.input[:2])
        for found in given, weights:
            if found is None or found.op_type != "DequantizeLinear":
                return None
        assert given is not None
        assert weights is not None
        if weights.input[0] not in self._constants:
            return None
        scales, zeros = self._grid(weights)
        if zeros.any():
            raise self._error(node, "has weights with zero points")
        turned = node.op_type != "Conv" and not _attribute(node, "transB")
        stored = self._constants[weights.input[0]]
        real = _dequantised(stored, scales, zeros, _attribute(weights, "axis", 1))
        outputs = stored.shape[1] if turned else stored.shape[0]
        if scales.size > 1 and _attribute(weights, "axis", 1) % stored.ndim != int(turned):
            raise self._error(node, "has scales of weights along another axis than that of its outputs")
        return QuantisedLayer(
            name=node.output[0],
            weights=np.ascontiguousarray(real.T if turned else real),
            steps=np.resize(scales, outputs).astype(np.float32),
            largest=self._largest(given),
        )

    def remove_conversions(self) -> None:
        """Takes the conversions out of the graph."""
        from onnx import helper, numpy_helper

        kept, names = [], dict[str, str]()
        outputs = {output.name for output in self._graph.output}
        for node in self._graph.node:
            for place, name in enumerate(node.input):
                node.input[place] = names.get(name, name)
            if node.op_type not in CONVERSIONS:
                kept.append(node)
            elif node.op_type == "DequantizeLinear" and node.input[0] in self._constants:
                scales, zeros = self._grid(node)
                real = _dequantised(
                    self._constants[node.input[0]], scales, zeros, _attribute(node, "axis", 1)
                )
                self._graph.initializer.append(numpy_helper.from_array(real, node.output[0]))
            elif node.output[0] in outputs:
                kept.append(helper.make_node("Identity", [node.input[0]], [node.output[0]]))
            else:
                names[node.output[0]] = node.input[0]
        used = {name for node in kept for name in node.input} | outputs
        tensors = [tensor for tensor in self._graph.initializer if tensor.name in used]
        for field, values in (("node", kept), ("initializer", tensors), ("value_info", [])):
            self._graph.ClearField(field)
            getattr(self._graph, field).extend(values)

    def _grid(self, node: NodeProto) -> tuple[Floats, npt.NDArray[np.float64]]:
        """Scales and zero points of a conversion."""
        for name in node.input[1:]:
            if name not in self._constants:
                raise self._error(node, "has a scale that is computed at run time")
        scales = self._constants[node.input[1]].astype(np.float32).reshape(-1)
        zeros = self._zeros(node)
        return scales, np.resize(zeros.astype(np.float64), len(scales))

    def _zeros(self, node: NodeProto) -> Array:
        zeros = self._constants[node.input[2]] if len(node.input) > 2 else np.zeros(1, np.uint8)
        return zeros.reshape(-1)

    def _largest(self, node: NodeProto) -> float:
        scales, zeros = self._grid(node)
        ends = np.iinfo(self._zeros(node).dtype)
        return float((scales * np.maximum(zeros - ends.min, ends.max - zeros)).max())

    def _error(self, node: NodeProto, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._file}: {node.op_type}, which makes {node.output[0]}, {what}",
            hint="Use a policy without int8.",
        )


def _attribute(node: NodeProto, name: str, absent: int = 0) -> int:
    return next((int(each.i) for each in node.attribute if each.name == name), absent)


def _dequantised(stored: Array, scales: Floats, zeros: npt.NDArray[np.float64], axis: int) -> Floats:
    sizes = [1] * stored.ndim
    if scales.size > 1:
        sizes[axis] = scales.size
    shape = sizes if stored.ndim else []
    real: Floats = ((stored - zeros.reshape(shape)) * scales.reshape(shape)).astype(np.float32)
    return real
