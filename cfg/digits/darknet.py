"""Darknet's two files: reads a cfg, writes a Keras model's weights."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
