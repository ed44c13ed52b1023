"""Which channels of a network's tensors can be scaled, and which must then be scaled alike.

A convolution may compute a channel times a factor, if every convolution that reads the channel divides its
weights by the factor. Layers between them that give f·y for f·x pass the factor on: linear, relu and leaky
activations, pooling, sums, and layers that only move values. Channels that meet in a sum share a factor. All
other layers, and the network's input and outputs, keep their channels as they are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import NETWORK_INPUT, Layer, Section
from harness.config.layer_shapes import Shape
from harness.repair.parameters import Parameters

Groups = npt.NDArray[np.intp]

FIXED = 0  # the group of channels that no factor may change

_HOMOGENEOUS = ("linear", "relu", "leaky")
_AXES = ("channels", "height", "width")


class ChannelGroups:
    """The group of every channel of every tensor."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._parents: list[int] = [FIXED]
        self._places: dict[int, Groups] = {}  # [channels, height, width] the group of each value
        for layer in parameters.cfg.layers:
            self._places[layer.index] = self._of_output(layer)
        for tensor in _outputs(parameters):
            self._fix(self._at(tensor))

    @property
    def count(self) -> int:
        """All groups have smaller numbers."""
        return len(self._parents)

    def of(self, tensor: int) -> Groups:
        """[channels] the groups of a layer's output or of the network's input. A channel whose values are of
        several groups, which only layers that move values read, has that of its first value."""
        places = self._at(tensor).reshape(self._parameters.shape_of(tensor)[0], -1)
        return self._roots(places[:, 0])

    def _at(self, tensor: int) -> Groups:
        if tensor == NETWORK_INPUT:
            return np.full(self._parameters.cfg.input_size, FIXED, np.intp)
        return self._places[tensor]

    def _of_output(self, layer: Layer) -> Groups:
        section = self._parameters.section(layer)
        inputs = [self._at(tensor) for tensor in layer.inputs]
        if layer.kind == "convolutional":
            self._by_channel(inputs[0])
            free = _activation(section, "logistic") in _HOMOGENEOUS
            groups = self._new(layer.channels) if free else np.full(layer.channels, FIXED, np.intp)
            return _spread(groups, layer.out)
        moved = self._moved(layer, section, inputs)
        if moved is not None and moved.shape == layer.out:
            return moved
        for places in inputs:
            self._fix(places)
        return np.full(layer.out, FIXED, np.intp)

    def _moved(self, layer: Layer, section: Section, inputs: list[Groups]) -> Groups | None:
        """The groups behind a layer that passes factors on; None for all others."""
        match layer.kind:
            case "dropout" | "cost":
                return inputs[0]
            case "maxpool" | "pool" | "avgpool" | "upsample":
                return _spread(self._by_channel(inputs[0]), layer.out)
            case "resize" if section.word("mode") in ("nearest", "linear"):
                return _spread(self._by_channel(inputs[0]), layer.out)
            case "activation" if _activation(section, "linear") in _HOMOGENEOUS:
                return inputs[0]
            case "shortcut" | "add" if _activation(section, "linear") in _HOMOGENEOUS:
                return self._sum(inputs)
            case "route":
                return _joined(section, inputs)
            case "reshape":
                return inputs[0].reshape(layer.out)
            case "transpose":
                return _transposed(section, inputs[0]).reshape(layer.out)
            case "slice":
                return _sliced(section, inputs[0])
            case _:
                return None

    def _sum(self, inputs: list[Groups]) -> Groups | None:
        if len({places.shape for places in inputs}) > 1:
            return None
        for other in inputs[1:]:
            self._unite(inputs[0], other)
        return inputs[0]

    def _by_channel(self, places: Groups) -> Groups:
        """[channels] the groups, after each channel's values have been united."""
        rows = places.reshape(len(places), -1)
        self._unite(np.repeat(rows[:, :1], rows.shape[1], axis=1), rows)
        return rows[:, 0]

    def _new(self, count: int) -> Groups:
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        return np.arange(first, first + count)

    def _fix(self, places: Groups) -> None:
        self._unite(np.full_like(places, FIXED), places)

    def _unite(self, some: Groups, others: Groups) -> None:
        pairs = np.unique(np.stack([some.ravel(), others.ravel()]), axis=1)
        for one, other in pairs.T:
            first, second = sorted((self._root(int(one)), self._root(int(other))))
            self._parents[second] = first

    def _root(self, group: int) -> int:
        while self._parents[group] != group:
            self._parents[group] = self._parents[self._parents[group]]
            group = self._parents[group]
        return group

    def _roots(self, groups: Groups) -> Groups:
        return np.array([self._root(int(group)) for group in groups], np.intp)


def _outputs(parameters: Parameters) -> set[int]:
    """The tensors that are read outside the network, or by layers that end it."""
    cfg = parameters.cfg
    read = {tensor for layer in cfg.layers for tensor in layer.inputs}
    unread = {layer.index for layer in cfg.layers} - read
    return {*cfg.outputs, *unread, len(cfg.layers) - 1}


def _activation(section: Section, absent: str) -> str:
    return section.word("activation") or absent


def _spread(groups: Groups, shape: Shape) -> Groups:
    return np.broadcast_to(groups[:, None, None], shape)


def _joined(section: Section, inputs: list[Groups]) -> Groups:
    axis = _axis(section)
    parts = max(section.integer("groups", 1), 1)
    chosen = section.integer("group_id", 0)
    taken = []
    for places in inputs:
        share = places.shape[axis] // parts
        taken.append(np.take(places, range(share * chosen, share * (chosen + 1)), axis=axis))
    return np.concatenate(taken, axis=axis)


def _transposed(section: Section, places: Groups) -> Groups:
    return places.reshape(section.integers("dims") or places.shape).transpose(section.integers("axes"))


def _sliced(section: Section, places: Groups) -> Groups:
    axis = _axis(section)
    step = section.integer("step", 1)
    size = places.shape[axis]
    begin = section.integer("begin", 0 if step > 0 else size - 1)
    end = section.integer("end", size if step > 0 else -1)
    return np.take(places, range(begin, end, step), axis=axis)


def _axis(section: Section) -> int:
    return _AXES.index(section.word("axis") or "channels")
