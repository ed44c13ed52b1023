"""Fits each convolution, with its weights in int8, to what it computes in fp32 on pictures.

Layer by layer in their order: a layer reads the int8 path with all layers before it fitted, so it also makes
up for what they lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import console
from harness.config.darknet_cfg import NETWORK_INPUT, Layer
from harness.exporting.weights_file import Floats
from harness.repair.int8_path import Int8Path
from harness.repair.least_squares import fitted, nearest, rounded, second_moments, steps_of
from harness.repair.parameters import Doubles, Parameters
from harness.repair.windows import sampled_windows
from harness.runtimes.engine import EngineOptions, HostEngine

PLACES = 256  # of each layer's output that are sampled in a picture

_BIAS_SHARE = np.float32(2**-16)  # of a bias: the engine's least step of weights


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is fitted."""

    rounding: bool = True  # weights, and how they are rounded
    clipping: bool = True  # steps of weights
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """One layer."""

    steps: Sequence[float]  # of the weights, one for each output channel
    signal: float  # mean square of fp32's values
    before: float  # mean square of the error if the weights are rounded to the nearest step
    after: float


def wanted_outputs(
    engine: HostEngine,
    options: EngineOptions,
    parameters: Parameters,
    *,
    cfg: Path,
    weights: Path,
    pictures: Floats,
) -> dict[int, Floats]:
    """What every convolution computes in fp32 before its activation, [groups, samples, channels].

    The files are those of `parameters` with all layers in fp32.
    """
    found: dict[int, list[Floats]] = {layer.index: [] for layer in parameters.convolutions}
    chunk = engine.images_per_chunk(cfg, layers=True)
    with console.progress("running fp32", total=len(pictures)) as bar:
        for first in range(0, len(pictures), chunk):
            batch = pictures[first : first + chunk]
            layers = engine.forward(cfg, weights, batch, options, layers=True).layers
            tensors = {NETWORK_INPUT: batch} | layers
            for layer in parameters.convolutions:
                inputs = sampled_windows(parameters, layer, tensors[layer.inputs[0]], PLACES)
                matrices, bias = _matrices(parameters, layer)
                outputs = inputs @ matrices.swapaxes(1, 2) + bias[:, None, :]
                found[layer.index].append(outputs.astype(np.float32))
            bar.advance(len(batch))
    return {index: np.concatenate(parts, axis=1) for index, parts in found.items()}


def reconstruct(
    path: Int8Path, parameters: Parameters, wanted: Mapping[int, Floats], pictures: Floats, fit: Fit
) -> dict[int, Fitted]:
    """Fits all convolutions and returns what came of each."""
    found: dict[int, Fitted] = {}
    source, tensor = None, pictures
    with console.progress("fitting layers", total=len(parameters.convolutions)) as bar:
        for layer in parameters.convolutions:
            if layer.inputs != source:
                steps = {index: each.steps for index, each in found.items()}
                source, tensor = layer.inputs, path.input_of(layer, parameters, steps, pictures)
            inputs = sampled_windows(parameters, layer, tensor, PLACES).astype(np.float64)
            found[layer.index] = _fitted(parameters, layer, inputs, wanted[layer.index], fit)
            bar.advance()
    return found


def _fitted(parameters: Parameters, layer: Layer, inputs: Doubles, outputs: Floats, fit: Fit) -> Fitted:
    weights, bias = _matrices(parameters, layer)
    plain = _steps(bias, steps_of(weights))
    before = outputs - inputs @ nearest(weights, plain).swapaxes(1, 2) - bias[:, None, :]
    # With a bias that follows, only the deviations from the mean are left to the weights.
    means = inputs.mean(axis=1, keepdims=True) * fit.bias
    wanted = outputs.mean(axis=1, keepdims=True, dtype=np.float64) if fit.bias else bias[:, None, :]
    moments = second_moments(inputs - means)
    if fit.rounding:
        weights = fitted(weights, inputs - means, outputs - wanted)
    steps = _steps(bias, steps_of(weights, moments if fit.clipping else None))
    weights = rounded(weights, steps, moments) if fit.rounding else nearest(weights, steps)
    if fit.bias:
        bias = (wanted - means @ weights.swapaxes(1, 2))[:, 0]
    after = outputs - inputs @ weights.swapaxes(1, 2) - bias[:, None, :]
    shape = parameters.weights(layer).shape
    parameters.set_folded(layer, weights.reshape(shape).astype(np.float32), bias.ravel().astype(np.float32))
    return Fitted(
        steps=steps.ravel().tolist(),
        signal=float(np.square(outputs).mean(dtype=np.float64)),
        before=float(np.square(before).mean()),
        after=float(np.square(after).mean()),
    )


def _matrices(parameters: Parameters, layer: Layer) -> tuple[Doubles, Doubles]:
    """Weights [groups, channels, values] and bias [groups, channels]."""
    weights, bias = parameters.folded(layer)
    groups = parameters.groups(layer)
    shape = (groups, layer.channels // groups)
    return weights.reshape(*shape, -1).astype(np.float64), bias.reshape(shape).astype(np.float64)


def _steps(bias: Doubles, steps: Doubles) -> Doubles:
    """The engine's float32 steps: a bias counts in multiples of them and must fit int32."""
    least = np.abs(bias).astype(np.float32) * _BIAS_SHARE
    used: Doubles = np.maximum(steps.astype(np.float32), least).astype(np.float64)
    return used
