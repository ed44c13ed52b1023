"""Cross-layer equalisation: brings the channels of a tensor to similar ranges.

An int8 tensor has one step for all its channels, so a channel of small values has few of the 256 levels. Its
values are multiplied by a factor, and the weights that read them divided by it (Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction", ICCV 2019). The network computes the same in
fp32, up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.config.darknet_cfg import NETWORK_INPUT, Layer
from harness.exporting.weights_file import Floats
from harness.repair.channel_groups import FIXED, ChannelGroups, Groups
from harness.repair.parameters import Doubles, Parameters

_LARGEST = 64.0  # factor; smallest is its inverse


def equalise(parameters: Parameters, spans: Mapping[int, Floats]) -> int:
    """Scales the channels of all tensors that can be scaled, and returns the number of factors.

    `spans` has for each tensor the length of its channels' ranges, which include zero.
    """
    groups = ChannelGroups(parameters)
    tensors = {tensor: groups.of(tensor) for tensor in (NETWORK_INPUT, *range(len(parameters.cfg.layers)))}
    activations = _activation_shares(parameters, spans, tensors, groups.count)
    weights = _weight_shares(parameters, tensors, groups.count)
    scaled = (activations > 0) & (weights > 0)
    scaled[FIXED] = False
    if not scaled.any():
        return 0
    # A larger factor makes the channel's rounding finer, and that of the weights which read it coarser.
    logarithms = (np.log(weights[scaled]) - np.log(activations[scaled])) / 2
    factors = np.ones(groups.count)
    factors[scaled] = np.clip(np.exp(logarithms - logarithms.mean()), 1 / _LARGEST, _LARGEST)
    for layer in parameters.convolutions:
        parameters.scale_outputs(layer, factors[tensors[layer.index]].astype(np.float32))
        parameters.scale_inputs(layer, (1 / factors[tensors[layer.inputs[0]]]).astype(np.float32))
    return int(scaled.sum())


def _activation_shares(
    parameters: Parameters, spans: Mapping[int, Floats], tensors: Mapping[int, Groups], count: int
) -> Doubles:
    """[groups] the largest share of a channel's range in the range of its tensor."""
    shares = np.zeros(count)
    for tensor, groups in tensors.items():
        if tensor in spans and spans[tensor].max() > 0 and not _has_channel_ranges(parameters, tensor):
            np.maximum.at(shares, groups, spans[tensor] / spans[tensor].max())
    return shares


def _has_channel_ranges(parameters: Parameters, tensor: int) -> bool:
    """Whether the engine stores each channel of the tensor with a range of its own."""
    readers = [layer for layer in parameters.cfg.layers if tensor in layer.inputs]
    return bool(readers) and all(layer.depthwise for layer in readers)


def _weight_shares(parameters: Parameters, tensors: Mapping[int, Groups], count: int) -> Doubles:
    """[groups] the largest share, of all layers that read a channel, of its weights in their rows."""
    shares = np.zeros(count)
    for layer in parameters.convolutions:
        if not layer.depthwise:  # its weights have a step for each channel
            np.maximum.at(shares, tensors[layer.inputs[0]], _column_shares(parameters, layer))
    return shares


def _column_shares(parameters: Parameters, layer: Layer) -> Doubles:
    """[input channels] the root mean square, over output channels, of a column's share in its row."""
    largest = np.abs(parameters.weights(layer)).max(axis=2).astype(np.float64)
    shares = largest / np.maximum(largest.max(axis=1, keepdims=True), 1e-30)
    by_group = shares.reshape(parameters.groups(layer), -1, shares.shape[1])
    columns: Doubles = np.sqrt((by_group**2).mean(axis=1)).ravel()
    return columns
