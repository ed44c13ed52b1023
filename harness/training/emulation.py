"""The engine's inference in TensorFlow: int8 to the last bit, and with gradients.

Every tensor that the engine stores as int8 is held here as whole steps, stored value less zero point, in
float32. Sums of their products are whole numbers: exact in float32 up to 2^24, and in float64, which `exact`
uses, always. Scales, multipliers and roundings are those of engine/src/quant/requantize.h, in the same order
and widths. Backwards every rounding counts as the identity, and every limit stops the gradient beyond it, so
that weights, biases and the ends of ranges are all trained.

Maps have their channels last. Only the program of training imports this module: it needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf

from harness.config.darknet_cfg import NETWORK_INPUT
from harness.exporting.layer import NetworkLayer
from harness.exporting.network import Network
from harness.exporting.precision_plan import LayerFormat, Rule, TensorFormat, rule_of
from harness.training.activation_lines import EITHER_SIDE, PLACES_PER_LINE, PLACES_PER_UNIT, lines_of
from harness.training.float_layers import COMPUTED, activated
from harness.training.moves import MOVED, axis_of
from harness.training.supported import FOLDED

Tensor = Any  # of TensorFlow, which has no types

_LARGEST, _SMALLEST = 1e30, 1e-30  # ends of ranges, scales
_MULTIPLIER_LIMIT = 1e28
_BIAS_LIMIT = 2.0**30


class Parameters(Protocol):
    """What is trained. All are float32."""

    def filters(self, layer: int) -> tuple[Tensor, Tensor]:
        """Weights [output channels, input channels / groups, rows, columns] and bias of a convolution."""

    def range_of(self, tensor: int, *, by_channel: bool) -> tuple[Tensor, Tensor]:
        """The ends of a tensor's range, or those of its channels."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Of int8: real = scale * steps. Both broadcast over [pictures, rows, columns, channels]."""

    scale: Tensor
    zero_point: Tensor  # a whole number in float32


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tensor: real values, or steps."""

    values: Tensor
    step: Step | None = None

    @property
    def real(self) -> Tensor:
        return self.values if self.step is None else self.values * self.step.scale


class Emulation:
    """A network under a plan of precisions, with parameters that may change between calls."""

    def __init__(
        self,
        network: Network,
        formats: Sequence[LayerFormat],
        parameters: Parameters,
        *,
        exact: bool = False,
    ) -> None:
        """The layers are known to `supported.check_supported`."""
        self._network = network
        self._formats = formats
        self._parameters = parameters
        self._exact = exact
        self._needed = network.needed()

    def outputs(self, pictures: Tensor) -> dict[int, Tensor]:
        """The real values of the layers that the heads need, for pictures [n, rows, columns, channels]."""
        tensors = {NETWORK_INPUT: Stored(values=pictures)}
        for layer in self._needed:
            sources = layer.inputs or (NETWORK_INPUT,)  # a constant is repeated for each picture
            tensors[layer.index] = self._computed(layer, [tensors[source] for source in sources])
        return {index: tensor.real for index, tensor in tensors.items() if index != NETWORK_INPUT}

    def heads(self, pictures: Tensor) -> dict[int, Tensor]:
        """The real values of the heads."""
        outputs = self.outputs(pictures)
        return {head: outputs[head] for head in self._network.heads}

    def _computed(self, layer: NetworkLayer, inputs: list[Stored]) -> Stored:
        written = self._formats[layer.index].output
        match layer.kind:
            case "convolutional":
                return self._convolutional(layer, inputs[0])
            case "dropout" | "cost":
                return inputs[0]
            case "route":
                return self._joined(layer, inputs, written)
            case kind if rule_of(layer) is Rule.KEEPS:
                return Stored(values=MOVED[kind](layer, inputs[0].values), step=inputs[0].step)
            case kind:
                return self._stored(COMPUTED[kind](layer, [each.real for each in inputs]), written)

    def _joined(self, layer: NetworkLayer, inputs: list[Stored], written: TensorFormat) -> Stored:
        if layer.groups > 1:
            chosen = layer.section.integer("group_id", 0)
            parts = [tf.split(each.values, layer.groups, axis=3)[chosen] for each in inputs]
            inputs = [Stored(values=part, step=each.step) for part, each in zip(parts, inputs, strict=True)]
        if len(inputs) == 1:
            return inputs[0]
        stored = [self._stored_again(each, written) for each in inputs]
        values = tf.concat([each.values for each in stored], axis=axis_of(layer))
        return Stored(values=values, step=stored[0].step)

    def _stored_again(self, tensor: Stored, written: TensorFormat) -> Stored:
        """In another format: from int8 to int8 without real values between."""
        if written.precision != "int8" or tensor.step is None:
            return self._stored(tensor.real, written)
        step = self._step(written)
        ratio = _single(tf.minimum(_double(tensor.step.scale) / _double(step.scale), _MULTIPLIER_LIMIT))
        same = tf.logical_and(
            tf.equal(tensor.step.scale, step.scale), tf.equal(tensor.step.zero_point, step.zero_point)
        )
        return Stored(values=tf.where(same, tensor.values, _rounded(tensor.values * ratio, step)), step=step)

    def _stored(self, real: Tensor, written: TensorFormat) -> Stored:
        match written.precision:
            case "int8":
                return _quantised(real, self._step(written))
            case "fp16":
                return Stored(values=_half(real))
            case _:
                return Stored(values=real)

    def _step(self, written: TensorFormat) -> Step:
        assert written.recorded is not None
        ends = self._parameters.range_of(written.recorded, by_channel=written.channels is not None)
        return step_of_range(*ends)

    def _convolutional(self, layer: NetworkLayer, given: Stored) -> Stored:
        form = self._formats[layer.index]
        weights, bias = self._parameters.filters(layer.index)
        if form.executed == "int8":
            return self._int8(layer, form, self._int8_input(form, given), weights, bias)
        real = given.real
        if form.executed == "fp16":
            real, weights = _half(real), _half(weights)
        sums = activated(layer.activation, _windows(layer, real, weights) + bias)
        return self._stored(sums, form.output)

    def _int8_input(self, form: LayerFormat, given: Stored) -> Stored:
        if form.dynamic:
            real = given.real
            low, high = (
                reduce(real, axis=(1, 2, 3), keepdims=True) for reduce in (tf.reduce_min, tf.reduce_max)
            )
            return _quantised(real, step_of_range(low, high))
        return given if form.converted is None else self._stored(given.real, form.converted)

    def _int8(
        self, layer: NetworkLayer, form: LayerFormat, given: Stored, weights: Tensor, bias: Tensor
    ) -> Stored:
        assert given.step is not None
        scales = _weight_scales(weights, bias, form.weight_scales)
        steps = _double(weights) / tf.reshape(_double(scales), (-1, 1, 1, 1))
        whole = _single(_nearest(tf.clip_by_value(steps, -127.0, 127.0)))
        products = _double(given.step.scale) * _double(scales)  # steps of the sums
        sums_wide = tf.float64 if self._exact else tf.float32
        added = _nearest(tf.clip_by_value(_double(bias) / products, -_BIAS_LIMIT, _BIAS_LIMIT))
        sums = _windows(layer, tf.cast(given.values, sums_wide), tf.cast(whole, sums_wide))
        sums = _single(sums + tf.cast(added, sums_wide))
        multipliers = _single(tf.minimum(products, _MULTIPLIER_LIMIT))
        if form.output.precision != "int8":
            return self._stored(activated(layer.activation, sums * multipliers), form.output)
        step = self._step(form.output)
        if layer.activation not in FOLDED:
            return _quantised(_on_lines(layer.activation, sums * multipliers), step)
        folded = _single(tf.minimum(products / _double(step.scale), _MULTIPLIER_LIMIT))
        six = _single(6.0 / _double(step.scale))
        return Stored(values=_rounded(_in_steps(layer.activation, sums * folded, six), step), step=step)


def step_of_range(low: Tensor, high: Tensor) -> Step:
    """The step that covers a range, widened to include zero (engine/src/quant/quantization.h)."""
    low = tf.maximum(tf.minimum(_double(low), 0.0), -_LARGEST)
    high = tf.minimum(tf.maximum(_double(high), 0.0), _LARGEST)
    empty = tf.equal(high, low)
    scale = tf.where(empty, 1.0, _single(tf.maximum((high - low) / 255.0, _SMALLEST)))
    zero = tf.clip_by_value(_nearest(-128.0 - low / _double(scale)), -128.0, 127.0)
    return Step(scale=scale, zero_point=tf.where(empty, 0.0, _single(zero)))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _nearest(values: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """To the nearest whole number, ties to even; the identity for gradients."""
    return tf.round(values), lambda gradient: gradient


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _half(values: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Rounded to fp16; the identity for gradients."""
    return tf.cast(tf.cast(values, tf.float16), tf.float32), lambda gradient: gradient


def _single(values: Tensor) -> Tensor:
    return tf.cast(values, tf.float32)


def _double(values: Tensor) -> Tensor:
    return tf.cast(values, tf.float64)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _between(values: Tensor, low: Tensor, high: Tensor, zero_point: Tensor) -> Any:
    """Rounded, and limited to low - zero_point and high - zero_point.

    Backwards the rounding is the identity, and beyond the limits the zero point alone has a gradient. A mask
    is multiplied: TensorFlow's own gradient of limits takes several times as long.
    """
    nearest = tf.round(values)
    limited = tf.clip_by_value(nearest, low - zero_point, high - zero_point)
    inside = _single(tf.equal(nearest, limited))

    def backwards(gradient: Tensor) -> tuple[Tensor, None, None, Tensor]:
        passed = gradient * inside
        return passed, None, None, _summed_as(zero_point, passed - gradient)

    return limited, backwards


def _summed_as(small: Tensor, values: Tensor) -> Tensor:
    """Sums values over the axes along which `small` is repeated: it has no axes, channels, or pictures."""
    match small.shape.rank:
        case 0:
            return tf.reduce_sum(values)
        case 1:
            return tf.reduce_sum(values, axis=(0, 1, 2))
        case _:
            return tf.reduce_sum(values, axis=(1, 2, 3), keepdims=True)


def _rounded(in_steps: Tensor, step: Step) -> Tensor:
    return _between(in_steps, -128.0, 127.0, step.zero_point)


def _quantised(real: Tensor, step: Step) -> Stored:
    return Stored(values=_rounded(real * _single(1.0 / _double(step.scale)), step), step=step)


def _weight_scales(weights: Tensor, bias: Tensor, published: Any) -> Tensor:
    """[output channels] as weight_scale_of() of the engine; constants for gradients."""
    size = tf.minimum(tf.reduce_max(tf.abs(weights), axis=(1, 2, 3)), _LARGEST)
    steps = size / 127.0 if published is None else tf.constant(published, tf.float32)
    scales = tf.maximum(steps, tf.minimum(tf.abs(bias), _LARGEST) * 2.0**-16)
    if published is None:
        scales = tf.where(scales > _SMALLEST, scales, 1.0)
    return tf.stop_gradient(scales)


def _in_steps(activation: str, values: Tensor, six: Tensor) -> Tensor:
    """A foldable activation of values in steps of the output."""
    match activation:
        case "leaky":
            return tf.nn.leaky_relu(values, 0.1)
        case "relu":
            return tf.nn.relu(values)
        case "relu6":
            return tf.minimum(tf.nn.relu(values), six)
        case _:
            return values


def _on_lines(activation: str, x: Tensor) -> Tensor:
    """An activation by its lines."""
    intercepts, slopes = (tf.constant(each) for each in lines_of(activation))

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def on_lines(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        places = tf.clip_by_value(x * PLACES_PER_UNIT, -32768.0, 32767.0)
        lines = tf.cast(places, tf.int32) // PLACES_PER_LINE + EITHER_SIDE
        slope = tf.gather(slopes, lines)
        values = _single(_double(tf.gather(intercepts, lines)) + _double(slope) * _double(x))
        return values, lambda gradient: gradient * slope

    return on_lines(x)


def _windows(layer: NetworkLayer, values: Tensor, weights: Tensor) -> Tensor:
    """The sums of a convolution, without bias; `weights` are in the order of the cfg."""
    rows, columns = layer.window
    padded = tf.pad(values, [(0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0)])
    strides, dilations = [rows.stride, columns.stride], [rows.dilation, columns.dilation]
    if layer.groups > 1 and layer.groups == layer.input_shapes[0][0]:
        filters = tf.reshape(weights, (layer.groups, -1, rows.taps, columns.taps))
        filters = tf.transpose(filters, (2, 3, 0, 1))
        return tf.nn.depthwise_conv2d(padded, filters, [1, *strides, 1], "VALID", dilations=dilations)
    filters = tf.transpose(weights, (2, 3, 1, 0))
    if layer.groups == 1:
        return tf.nn.conv2d(padded, filters, strides, "VALID", dilations=dilations)
    parts = zip(tf.split(padded, layer.groups, axis=3), tf.split(filters, layer.groups, axis=3), strict=True)
    sums = [tf.nn.conv2d(part, own, strides, "VALID", dilations=dilations) for part, own in parts]
    return tf.concat(sums, axis=3)
