"""The tensors of a network as they are stored in an ONNX graph, and as a layer reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.config.darknet_cfg import NETWORK_INPUT
from harness.exporting.network import Network
from harness.exporting.onnx_graph import OnnxGraph
from harness.exporting.onnx_operation import TYPES
from harness.exporting.precision_plan import LayerFormat, TensorFormat
from harness.exporting.quantization import LEAST, Grid, grid_of_channels
from harness.exporting.weights_file import Floats


class Tensors:
    """Stores each layer's output in its format, and converts it for its readers.

    int8 is written as QuantizeLinear to uint8, on the same grid 128 steps higher: ONNX Runtime fuses nothing
    but convolutions of int8 tensors on x86. Every reader has a DequantizeLinear of its own, so that runtimes
    find the operators that they can run on integers.
    """

    def __init__(self, graph: OnnxGraph, network: Network, formats: Sequence[LayerFormat]) -> None:
        self._graph = graph
        self._network = network
        self._formats = formats
        self._stored: dict[int, str] = {}
        self._converted: dict[tuple[int, str], str] = {}
        self._aliases: dict[int, int] = {}
        # Beside other precisions fp16 is storage, as in the engine on most cores. ONNX Runtime on x86
        # computes layers of float16 in float32, and would leave out the roundings between them.
        self.computes_halves = all(
            form.executed == "fp16"
            for layer, form in zip(network.layers, formats, strict=True)
            if layer.weighted
        )
        self._grids: dict[int, tuple[Grid, Floats]] = {}  # of tensors with ranges by channel

    def add_given(self, tensor: int, name: str) -> None:
        """A tensor of the network's caller, or a constant: fp32."""
        self._stored[tensor] = name

    def add_alias(self, layer: int, source: int) -> None:
        """A layer that passes its input on."""
        self._aliases[layer] = source

    def store(self, layer: int, name: str) -> None:
        """A layer's output, computed as `name` in the layer's float type. Where channels have ranges of their
        own, it is divided by their factors already."""
        form = self._formats[layer].output
        if form.precision != "int8":
            self._stored[layer] = name
            return
        self._stored[layer] = self._quantised(name, self.grid(layer, form)[0])

    def grid(self, tensor: int, form: TensorFormat) -> tuple[Grid, Floats | None]:
        """The grid of an int8 tensor, and the factors of its channels if they have any."""
        if form.channels is None:
            assert form.grid is not None
            return form.grid, None
        if tensor not in self._grids:
            self._grids[tensor] = grid_of_channels(form.channels)
        return self._grids[tensor]

    def read_widened(self, tensor: int) -> str:
        """A tensor's values in fp16, as fp32."""
        tensor = self._source(tensor)
        if self._form(tensor).precision == "fp16":
            return self.read(tensor, "fp32")
        if (tensor, "widened") not in self._converted:
            self._converted[tensor, "widened"] = self.cast(self.read(tensor, "fp16"), "fp32")
        return self._converted[tensor, "widened"]

    def read(self, tensor: int, precision: str) -> str:
        """A tensor in fp32 or fp16."""
        tensor = self._source(tensor)
        form = self._form(tensor)
        if form.precision == precision:
            return self._stored[tensor]
        if form.precision == "int8":
            name, factors = self._dequantised(tensor, form)
            if factors is not None:
                name = self.scaled(name, factors)
            return name if precision == "fp32" else self.cast(name, precision)
        if (tensor, precision) not in self._converted:
            self._converted[tensor, precision] = self.cast(self._stored[tensor], precision)
        return self._converted[tensor, precision]

    def read_int8(self, tensor: int, converted: TensorFormat | None) -> tuple[str, Grid, Floats | None]:
        """A tensor on its int8 grid, or on the grid that it is converted to, as real numbers in fp32.

        Also returns the factors of its channels if it has any: the reader multiplies with them."""
        tensor = self._source(tensor)
        if converted is None:
            name, factors = self._dequantised(tensor, self._form(tensor))
            return name, self.grid(tensor, self._form(tensor))[0], factors
        grid, factors = self.grid(tensor, converted)
        key = (tensor, "int8 channels" if factors is not None else "int8")
        if key not in self._converted:
            name = self.read(tensor, "fp32")
            if factors is not None:
                name = self.scaled(name, np.reciprocal(factors))
            self._converted[key] = self._quantised(name, grid)
        return self._real(self._converted[key], grid), grid, factors

    def scaled(self, name: str, factors: Floats) -> str:
        """A tensor whose channels are multiplied with factors."""
        constant = self._graph.constant(factors.reshape(-1, 1, 1).astype(np.float32), f"{name}/factors")
        scaled = self._graph.free_name(f"{name}/scaled")
        self._graph.node("Mul", (name, constant), scaled)
        return scaled

    def cast(self, name: str, precision: str) -> str:
        """A tensor in fp32 or fp16, which it is not yet."""
        from onnx import helper

        cast = self._graph.free_name(f"{name}/{precision}")
        self._graph.node("Cast", (name,), cast, to=helper.np_dtype_to_tensor_dtype(TYPES[precision]))
        return cast

    def _source(self, tensor: int) -> int:
        while tensor in self._aliases:
            tensor = self._aliases[tensor]
        return tensor

    def _form(self, tensor: int) -> TensorFormat:
        return TensorFormat() if tensor == NETWORK_INPUT else self._formats[tensor].output

    def _dequantised(self, tensor: int, form: TensorFormat) -> tuple[str, Floats | None]:
        grid, factors = self.grid(tensor, form)
        return self._real(self._stored[tensor], grid), factors

    def _quantised(self, name: str, grid: Grid) -> str:
        stored = self._graph.free_name(f"{name}/uint8")
        self._graph.node("QuantizeLinear", (name, *self._parameters(grid)), stored)
        return stored

    def _real(self, name: str, grid: Grid) -> str:
        real = self._graph.free_name(f"{name}/real")
        self._graph.node("DequantizeLinear", (name, *self._parameters(grid)), real)
        return real

    def _parameters(self, grid: Grid) -> tuple[str, str]:
        zero_points = np.asarray(grid.zero_point - LEAST).astype(np.uint8)  # of channels: axis 1, the default
        return (
            self._graph.shared(np.full(zero_points.shape, grid.scale, np.float32), "scale"),
            self._graph.shared(zero_points, "zero_point"),
        )
