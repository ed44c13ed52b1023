"""The Keras model that a cfg describes.

Only what digits.cfg uses is understood: convolutional, maxpool, route, upsample, yolo; leaky and linear.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from darknet import Section

BATCH_NORM_EPSILON = 1e-5  # what the engine divides with; Keras's default is 1e-3
BATCH_NORM_MOMENTUM = 0.97


class FusedNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch normalisation that learns with TensorFlow's fused kernel: a third of the time of Keras's own."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return super().call(inputs, training=False)
        result, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            inputs, self.gamma, self.beta, epsilon=self.epsilon, is_training=True
        )
        for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            average.assign(self.momentum * average + (1 - self.momentum) * value)
        return result


def build(sections: list[Section]) -> Any:
    """The model: pixels / 255 [batch, height, width, 3] to every yolo layer's input, in layer order.

    Layers that have weights are named by their place in the cfg, `convolution_0`, `normalisation_0`.
    """
    net, *layers = sections
    image = keras.Input((net.number("height", 0), net.number("width", 0), net.number("channels", 3)))
    outputs: list[Any] = []
    heads = []
    for index, section in enumerate(layers):
        previous = outputs[-1] if outputs else image
        match section.kind:
            case "convolutional":
                outputs.append(_convolution(section, index, previous))
            case "maxpool":
                pool = keras.layers.MaxPooling2D(
                    section.number("size", 2), section.number("stride", 2), padding="same"
                )
                outputs.append(pool(previous))
            case "upsample":
                outputs.append(keras.layers.UpSampling2D(section.number("stride", 2))(previous))
            case "route":
                sources = [outputs[i if i >= 0 else index + i] for i in section.numbers("layers")]
                outputs.append(sources[0] if len(sources) == 1 else keras.layers.Concatenate()(sources))
            case "yolo":
                heads.append(previous)
                outputs.append(previous)
            case kind:
                raise ValueError(f"layer {index}: [{kind}] is not known here")
    return keras.Model(image, heads)


def _convolution(section: Section, index: int, previous: Any) -> Any:
    normalise = section.number("batch_normalize", 0) == 1
    convolution = keras.layers.Conv2D(
        section.number("filters", 1),
        section.number("size", 1),
        padding="same",
        use_bias=not normalise,
        name=f"convolution_{index}",
    )
    result = convolution(previous)
    if normalise:
        result = FusedNormalization(
            epsilon=BATCH_NORM_EPSILON, momentum=BATCH_NORM_MOMENTUM, name=f"normalisation_{index}"
        )(result)
    if section.keys["activation"] == "leaky":
        result = keras.layers.LeakyReLU(negative_slope=0.1)(result)
    return result
