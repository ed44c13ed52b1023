"""An ONNX graph in the making: nodes, constants and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

Array = npt.NDArray[Any]

# QuantizeLinear with a scale for each channel, and HardSwish. All current runtimes read it.
OPSET = 14
IR_VERSION = 8


class OnnxGraph:
    """Collects nodes in their order. Every name is that of one tensor."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._names: set[str] = set()
        self._shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def free_name(self, wanted: str) -> str:
        """The wanted name, or one like it that is free; it is taken then."""
        name, number = wanted, 1
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def node(self, operator: str, inputs: tuple[str, ...], *outputs: str, **attributes: Any) -> None:
        """Adds a node; its outputs are free names that have been taken."""
        from onnx import helper

        self.nodes.append(
            helper.make_node(
                operator, list(inputs), list(outputs), name=f"{outputs[0]}:{operator}", **attributes
            )
        )

    def constant(self, values: Array, wanted: str) -> str:
        """Adds a constant and returns its name."""
        from onnx import numpy_helper

        name = self.free_name(wanted)
        self.constants.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def shared(self, values: Array, wanted: str) -> str:
        """The name of a small constant, of which there is one for all who need it."""
        key = (str(values.dtype), values.shape, values.tobytes())
        if key not in self._shared:
            self._shared[key] = self.constant(values, wanted)
        return self._shared[key]

    def computes(self, name: str) -> bool:
        """Whether a node has such an output: it is neither an input of the graph nor a constant."""
        return any(name in node.output for node in self.nodes)

    def rename(self, old: str, new: str, first: int = 0) -> None:
        """Renames a tensor that only nodes from `first` on know; the new name has been taken."""
        for node in self.nodes[first:]:
            for names in (node.input, node.output):
                for place, name in enumerate(names):
                    if name == old:
                        names[place] = new
