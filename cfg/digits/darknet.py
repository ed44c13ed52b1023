"""Darknet's two files: a Keras model from a cfg, and a trained Keras model's weights file.

Only what digits.cfg uses is understood: convolutional, maxpool, route, upsample, yolo; leaky and linear.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH_NORM_EPSILON = 1e-5  # what the engine divides with; Keras's default is 1e-3


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of a cfg: its name and its keys."""

    kind: str
    keys: dict[str, str] = field(default_factory=dict)

    def number(self, key: str, default: int) -> int:
        return int(self.keys.get(key, default))

    def numbers(self, key: str) -> list[int]:
        return [int(word) for word in self.keys[key].split(",")]


def read_cfg(text: str) -> list[Section]:
    """The sections in order, `[net]` first."""
    sections: list[Section] = []
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            sections.append(Section(kind=line.strip("[]")))
        elif line:
            key, _, value = line.partition("=")
            sections[-1].keys[key.strip()] = value.strip()
    return sections


def build(sections: list[Section]) -> Any:
    """The Keras model: pixels / 255 [batch, height, width, 3] to every yolo layer's input, in layer order.

    Layers that have weights are named by their place in the cfg, `convolution_0`, `normalisation_0`.
    """
    import keras

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
    import keras

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
        result = keras.layers.BatchNormalization(
            epsilon=BATCH_NORM_EPSILON, momentum=0.97, name=f"normalisation_{index}"
        )(result)
    if section.keys["activation"] == "leaky":
        result = keras.layers.LeakyReLU(negative_slope=0.1)(result)
    return result


def write_weights(path: Path, model: Any, images_seen: int) -> None:
    """Writes the model's weights, layer by layer.

    A convolution has its offsets, then, if normalised, scales, means and variances, and last its kernel.
    """
    layers = {layer.name: layer for layer in model.layers}
    blobs: list[NDArray[np.float32]] = []
    for index in sorted(int(name.removeprefix("convolution_")) for name in layers if name.startswith("conv")):
        kernel, *bias = layers[f"convolution_{index}"].get_weights()
        if bias:
            blobs += bias
        else:
            scale, offset, mean, variance = layers[f"normalisation_{index}"].get_weights()
            blobs += [offset, scale, mean, variance]
        blobs.append(kernel.transpose(3, 2, 0, 1))  # Keras: y, x, in, out; Darknet: out, in, y, x
    write_blobs(path, blobs, images_seen)


def write_blobs(path: Path, blobs: Iterable[NDArray[np.float32]], images_seen: int) -> None:
    """Writes a weights file: version 0.2.0, whose count of images seen has 64 bits, then the floats."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(struct.pack("<iiiQ", 0, 2, 0, images_seen))
        for blob in blobs:
            file.write(np.ascontiguousarray(blob, "<f4").tobytes())
    temporary.replace(path)
