"""Networks that int8 loses: the same in fp32, with channels of very different sizes."""

from __future__ import annotations

import numpy as np

from harness.repair.channel_groups import FIXED, ChannelGroups
from harness.repair.parameters import Parameters


def scale_apart(parameters: Parameters, spread: float, seed: int = 0) -> None:
    """Multiplies channels by factors from 2^-spread to 1, and divides the weights that read them.

    One step for a whole tensor then leaves the smallest channels 8 - spread bits. The outputs in fp32 stay,
    up to rounding.
    """
    groups = ChannelGroups(parameters)
    factors = 2 ** -np.random.default_rng(seed).uniform(0, spread, groups.count)
    factors[FIXED] = 1
    for layer in parameters.convolutions:
        parameters.scale_outputs(layer, factors[groups.of(layer.index)].astype(np.float32))
        parameters.scale_inputs(layer, (1 / factors[groups.of(layer.inputs[0])]).astype(np.float32))
