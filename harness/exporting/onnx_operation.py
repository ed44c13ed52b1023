"""What a function that writes a kind of layer as ONNX is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.exporting.layer import NetworkLayer
from harness.exporting.onnx_graph import OnnxGraph

TYPES: Mapping[str, np.dtype[Any]] = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}

LARGEST_HALF = 65504.0


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A layer with the names of its inputs, which are [1, channels, height, width] in `precision`."""

    graph: OnnxGraph
    layer: NetworkLayer
    inputs: tuple[str, ...]
    precision: str  # fp32 or fp16: of inputs and output
    weights: str = ""  # constants, or dequantised ones
    bias: str = ""

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node and returns its output."""
        name = self.graph.free_name(f"{self.layer.tensor}/{operator}")
        self.graph.node(operator, inputs, name, **attributes)
        return name

    def numbers(self, values: npt.ArrayLike) -> str:
        """A constant of the layer's precision."""
        array = np.asarray(values, TYPES[self.precision])
        return self.graph.shared(array, f"{'x'.join(map(str, array.shape)) or 'number'}_{self.precision}")

    def large(self, values: npt.NDArray[Any], name: str) -> str:
        """The same for many numbers, with a name of its own."""
        return self.graph.constant(values.astype(TYPES[self.precision]), name)

    def sizes(self, values: Sequence[int]) -> str:
        """A constant list of int64, of sizes, places or axes."""
        return self.graph.shared(np.array(values, np.int64), "_".join(["sizes", *map(str, values)]))

    def reshape(self, name: str, *sizes: int) -> str:
        """A tensor in another shape."""
        return self.emit("Reshape", name, self.sizes(sizes))
