"""Random weights of the right size for a cfg: for timing without the trained weights."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.files import open_regular, written_whole
from harness.resources import cache_directory

if TYPE_CHECKING:
    import numpy as np


SEED = 1  # of the weights that sweeps write


def random_weights_file(cfg: Path) -> Path:
    """The path of a sweep's random weights for a cfg; it depends on the cfg's content."""
    with open_regular(cfg) as stream:
        data = stream.read()
    key = hashlib.sha256(b"random weights 1\0" + data).hexdigest()[:16]
    return cache_directory() / "random_weights" / f"{cfg.stem[:40]}-{key}.weights"


def write_random_weights(path: Path, layers: Sequence[Mapping[str, Any]], seed: int) -> int:
    """Writes seeded random weights for the layers that `mpe info` lists; returns the file's size in bytes.

    Kernels are drawn with variance 2 / fan-in, so that activations neither vanish nor grow from layer to
    layer; running variances are positive. The same seed gives the same file.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    with written_whole(path) as file:
        file.write(struct.pack("<iiiQ", 0, 2, 0, 0))
        for layer in layers:
            if layer["parameters"]:
                for values in _layer(layer, rng):
                    file.write(values.astype("<f4").tobytes())
    return path.stat().st_size


def _layer(layer: Mapping[str, Any], rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """One layer's blocks in the file's order."""
    import numpy as np

    outputs, height, width = layer["out"]
    fan_in = max(layer["macs"] // (outputs * height * width), 1)
    if layer["type"] not in ("convolutional", "connected"):
        return [rng.standard_normal(layer["parameters"], np.float32) * np.float32(np.sqrt(2 / fan_in))]
    kernel = rng.standard_normal(outputs * fan_in, np.float32) * np.float32(np.sqrt(2 / fan_in))
    offsets = rng.normal(0, 0.1, outputs)
    if layer["parameters"] == outputs * (fan_in + 1):
        return [offsets, kernel]
    statistics = [rng.normal(1, 0.1, outputs), rng.normal(0, 0.1, outputs), rng.uniform(0.5, 2, outputs)]
    return [offsets, kernel, *statistics] if layer["type"] == "connected" else [offsets, *statistics, kernel]
