"""A cfg with its weights as a plain list of layers, which writers of other formats go through.

Shapes are channels, height, width, of one image. Batch normalisation is folded into weights and biases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.config.darknet_cfg import NETWORK_INPUT, DarknetCfg, Layer, Section, read_cfg, sections_of
from harness.config.file_kind import expect_weights
from harness.config.layer_shapes import Shape
from harness.errors import ConfigurationError
from harness.exporting.layer import NetworkLayer, check_layer
from harness.exporting.weights_file import Floats, WeightsFile


@dataclass(frozen=True, kw_only=True)
class Network:
    """All layers in their order. Layer i is layers[i]; NETWORK_INPUT is the input of [net]."""

    file: str
    net: Section
    input: str  # name of the input of [net]
    input_shape: Shape
    layers: tuple[NetworkLayer, ...]
    heads: tuple[int, ...]  # layers whose outputs `mpe forward` writes, ascending
    outputs: tuple[int, ...]  # that outputs= of [net] names, in its order; empty for Darknet's cfgs

    def shape_of(self, tensor: int) -> Shape:
        """Of a layer's output, or of the network's input."""
        return self.input_shape if tensor == NETWORK_INPUT else self.layers[tensor].out

    def name_of(self, tensor: int) -> str:
        """The name of a layer's output, or of the network's input."""
        return self.input if tensor == NETWORK_INPUT else self.layers[tensor].tensor

    def producer(self, tensor: int) -> int:
        """The layer that computes a tensor, which layers that matter in training alone may pass on."""
        return _producer(self.layers, tensor)

    def needed(self) -> tuple[NetworkLayer, ...]:
        """The layers that the heads depend on, in their order."""
        found: set[int] = set()
        pending = list(self.heads)
        while pending:
            index = pending.pop()
            if index != NETWORK_INPUT and index not in found:
                found.add(index)
                pending.extend(self.layers[index].inputs)
        return tuple(self.layers[index] for index in sorted(found))


def read_network(cfg: Path, weights: Path) -> Network:
    """Reads a model. Raises ConfigurationError if a file cannot be read, or if they do not fit together."""
    expect_weights(weights)
    network = read_cfg(cfg)
    net, *sections = sections_of(network.text, network.file)
    if min(network.input_size) < 1:
        raise net.error(f"has the input {'x'.join(map(str, network.input_size))}, which is not a size")
    names = {net.word("name") or "input"}
    bare = [
        NetworkLayer(
            **vars(layer),
            section=section,
            input_shapes=tuple(map(network.output_of, layer.inputs)),
            tensor=_free_name(layer, names),
        )
        for layer, section in zip(network.layers, sections, strict=True)
    ]
    for layer in bare:
        check_layer(layer)
    values = WeightsFile(weights, sum(map(_parameters, bare)), network.file)
    return Network(
        file=network.file,
        net=net,
        input=net.word("name") or "input",
        input_shape=network.input_size,
        layers=tuple(_with_numbers(layer, values) for layer in bare),
        heads=_heads(network, sections),
        outputs=network.outputs,
    )


def _parameters(layer: NetworkLayer) -> int:
    """In the weights file."""
    if layer.parameters is not None:
        return layer.parameters
    each = math.prod(layer.input_shapes[0]) + (4 if layer.section.integer("batch_normalize", 0) else 1)
    return layer.channels * each


def _free_name(layer: Layer, names: set[str]) -> str:
    """A name that no other tensor has: names of a cfg differ, but one may be that of kind and index."""
    name = layer.given_name or layer.name
    while name in names:
        name += "_"
    names.add(name)
    return name


def _with_numbers(layer: NetworkLayer, values: WeightsFile) -> NetworkLayer:
    weights, bias = _numbers(layer, values)
    for numbers in (weights, bias):
        if numbers is not None and not np.isfinite(numbers).all():
            normalised = layer.section.integer("batch_normalize", 0)
            raise ConfigurationError(
                f"{values.path}: layer {layer.index} ({layer.kind}) has a weight that is not finite"
                + (" once batch normalisation is folded in" if normalised else ""),
                hint="The file is corrupt or belongs to another cfg.",
            )
    return replace(layer, weights=weights, bias=bias)


def _numbers(layer: NetworkLayer, values: WeightsFile) -> tuple[Floats | None, Floats | None]:
    """Weights and bias of the next layer."""
    match layer.kind:
        case "convolutional":
            return _convolutional(layer, values)
        case "connected":
            return _connected(layer, values)
        case "deconvolutional":
            rows, columns = layer.window
            bias = values.take(layer.channels)
            filters = (layer.input_shapes[0][0], layer.channels // layer.groups)
            return values.take(*filters, rows.taps, columns.taps), bias
        case "prelu":
            return values.take(layer.channels), None
        case "constant":
            return values.take(*layer.out), None
        case _:
            return None, None


def _convolutional(layer: NetworkLayer, values: WeightsFile) -> tuple[Floats, Floats]:
    rows, columns = layer.window
    bias = values.take(layer.channels)
    normalised = layer.section.integer("batch_normalize", 0) or layer.section.integer("cbn", 0)
    norm = values.take_norm(layer.channels) if normalised else None
    depth = layer.input_shapes[0][0] // layer.groups
    weights = values.take(layer.channels, depth, rows.taps, columns.taps)
    return norm.folded(weights, bias) if norm else (weights, bias)


def _connected(layer: NetworkLayer, values: WeightsFile) -> tuple[Floats, Floats]:
    inputs = math.prod(layer.input_shapes[0])
    bias = values.take(layer.channels)
    if values.connected_transposed:
        weights = values.take(inputs, layer.channels).T
    else:
        weights = values.take(layer.channels, inputs)
    norm = values.take_norm(layer.channels) if layer.section.integer("batch_normalize", 0) else None
    return norm.folded(weights, bias) if norm else (weights, bias)


def _producer(layers: Sequence[Layer], tensor: int) -> int:
    while tensor != NETWORK_INPUT and layers[tensor].kind in ("dropout", "cost"):
        tensor = layers[tensor].inputs[0]
    return tensor


def _heads(network: DarknetCfg, sections: list[Section]) -> tuple[int, ...]:
    """The layers whose outputs the engine writes (engine/src/plan/heads.cpp)."""

    def producer(tensor: int) -> int:
        return _producer(network.layers, tensor)

    if network.outputs:
        return tuple(sorted(set(map(producer, network.outputs))))
    found: set[int] = set()
    for layer, section in zip(network.layers, sections, strict=True):
        if layer.kind in ("yolo", "region") or (layer.kind == "softmax" and "axis" not in section.options):
            found.add(producer(layer.inputs[0]))
    if network.layers[-1].kind not in ("yolo", "region"):
        found.add(producer(len(network.layers) - 1))
    return tuple(sorted(found))
