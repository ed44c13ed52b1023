"""Layers of an ncnn model in int8: weights by output channel, and one scale for a layer's input.

ncnn's grids are symmetric: -127 to 127, with zero at zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError
from harness.runtimes.ncnn_network import Operator, read_network, read_operators, write_network

if TYPE_CHECKING:
    from harness.runtimes.qdq_onnx import QuantisedLayer

Floats = npt.NDArray[np.float32]

_MOST = 127
_INT8, _REQUANTISES = 8, 100  # the key, and what is added to it where the output is int8, too
_BIAS = {"Convolution": 5, "ConvolutionDepthWise": 5, "InnerProduct": 1}  # the key
_COMPUTING_NOTHING = ("Input", "Split")
_CONVOLUTIONS = ("Convolution", "ConvolutionDepthWise")
_BY_GROUP, _BY_CHANNEL = 1, 2
_FEATURES, _WITHOUT_WINOGRAD = 31, 1 << 6
_WINOGRAD = 576  # what ncnn's F(4,3) multiplies sums with, in 32 bits


def in_int8(graph: str, content: bytes, layers: Sequence[QuantisedLayer], *, half: bool) -> tuple[str, bytes]:
    """A model of float32 with some layers in int8 and, if `half`, the weights of all others in float16.

    Raises ConfigurationError if a layer is not found.
    """
    operators = read_network(graph, content)
    free = [operator for operator in operators if operator.kind in _BIAS]
    for layer in layers:
        operator = next((each for each in free if _is_layer(each, layer)), None)
        if operator is None:
            raise ConfigurationError(
                f"ncnn's converter has changed the weights of the layer that makes {layer.name}, "
                "which cannot be int8 therefore",
                hint="Let this layer run in fp32.",
            )
        free.remove(operator)
        _quantise(operator, layer)
    _requantise(operators)
    if half:
        for operator in free:
            operator.numbers[0] = operator.numbers[0].astype(np.float16)
    return write_network(operators)


def int8_table(graph: str, content: bytes) -> str:
    """The scales of the layers in int8, as ncnn's tools read them: those of weights, then those of inputs."""
    weights, inputs = [], []
    for operator in read_network(graph, content):
        if operator.kind in _BIAS and operator.whole(_INT8):
            first = 1 + operator.whole(_BIAS[operator.kind])
            weights.append(_row(f"{operator.name}_param_0", operator.numbers[first]))
            inputs.append(_row(operator.name, operator.numbers[first + 1]))
    return "".join(f"{row}\n" for row in (*weights, *inputs))


def left_in_float(graph: str) -> Counter[str] | None:
    """How many operators of each kind compute in float beside others in int8; None if none are int8."""
    kinds = Counter[str]()
    operators = [each for each in read_operators(graph) if each.kind not in _COMPUTING_NOTHING]
    for operator in operators:
        if operator.kind not in _BIAS or not operator.whole(_INT8):
            kinds[operator.kind] += 1
    return kinds if kinds.total() < len(operators) else None


def _row(name: str, scales: npt.NDArray[np.generic]) -> str:
    return " ".join([name, *(f"{scale:.9g}" for scale in scales.tolist())])


def _is_layer(operator: Operator, layer: QuantisedLayer) -> bool:
    return np.array_equal(operator.numbers[0], layer.weights.reshape(-1))


def _quantise(operator: Operator, layer: QuantisedLayer) -> None:
    apart = operator.kind == "ConvolutionDepthWise"
    steps = layer.steps
    if apart:
        # A group has one scale.
        steps = steps.reshape(operator.whole(7, 1), -1).max(axis=1)
    rows = layer.weights.reshape(len(steps), -1).astype(np.float64)
    stored = np.rint(np.clip(rows / steps.reshape(-1, 1), -_MOST, _MOST)).astype(np.int8)
    operator.numbers[0] = stored.reshape(-1)
    scale = _MOST / layer.largest if layer.largest else 1.0
    operator.numbers += [np.reciprocal(steps), np.array([scale], np.float32)]
    operator.words[_INT8] = str(_BY_GROUP if apart else _BY_CHANNEL)
    sums = np.abs(stored.astype(np.int64)).sum(axis=1).max() * _MOST
    if operator.kind == "Convolution" and sums * _WINOGRAD >= 2**31:
        operator.words[_FEATURES] = str(_WITHOUT_WINOGRAD)


def _requantise(operators: Sequence[Operator]) -> None:
    """Lets a convolution put out int8 where convolutions in int8 with one scale are all that read it."""
    readers: dict[str, list[Operator]] = {}
    for operator in reversed(operators):
        found = [operator]
        if operator.kind == "Split":
            found = [reader for name in operator.outputs for reader in readers.get(name, [operator])]
        for name in operator.inputs:
            readers[name] = [*readers.get(name, []), *found]
    for operator in operators:
        if operator.kind not in _CONVOLUTIONS or not operator.whole(_INT8):
            continue
        behind = readers.get(operator.outputs[0], [])
        int8 = all(each.kind in _CONVOLUTIONS and each.whole(_INT8) for each in behind)
        scales = {_input_scale(each) for each in behind} if int8 else set()
        if len(scales) == 1:
            operator.numbers.append(np.array([*scales], np.float32))
            operator.words[_INT8] = str(operator.whole(_INT8) + _REQUANTISES)


def _input_scale(operator: Operator) -> float:
    return float(operator.numbers[2 + operator.whole(_BIAS[operator.kind])][0])
