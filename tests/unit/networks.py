"""Small networks as cfg texts, sweep files that use them, and what the engine prints of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from harness.config.darknet_cfg import parse_cfg

# Layers: 0 conv, 1 maxpool, 2 depthwise, 3 pointwise, 4 shortcut, 5 head conv, 6 yolo, 7 route,
# 8 conv (int8), 9 upsample, 10 route, 11 head conv, 12 yolo.
DETECTOR = """\
# a comment
[net]
width = 32
height=32
channels=3

[convolutional]
filters=8
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
groups=8
filters=8
size=3
pad=1
activation=leaky

[convolutional]
filters=8
size=1
activation=linear

[shortcut]
from=-3
activation=linear

[convolutional]
filters=21
size=1
activation=linear

[yolo]
mask=0,1,2
classes=2

[route]
layers=-3

[convolutional]
int8=1
quantize=1
filters=4
size=3
pad=1
activation=relu

[upsample]
stride=2

[route]
layers=-1,0

[convolutional]
fp16 = 1
filters=21
size=1
activation=linear

[yolo]
mask=0,1,2
classes=2
"""

WEIGHTED = [0, 2, 3, 5, 8, 11]

CLASSIFIER = """\
[net]
width=8
height=8
channels=1
[convolutional]
filters=4
size=3
activation=relu
[avgpool]
[connected]
output=10
activation=linear
[softmax]
"""


def write_sweep(folder: Path, text: str, *, cfg: str = DETECTOR) -> Path:
    """A sweep file beside net.cfg, net.weights (empty) and an empty folder `data`."""
    (folder / "net.cfg").write_text(cfg)
    (folder / "net.weights").write_bytes(b"")
    (folder / "data").mkdir(exist_ok=True)
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def printed_bench(cfg_text: str, samples_ns: Sequence[int]) -> str:
    """The output of `mpe bench --profile` for a cfg."""
    layers = [
        {
            "index": layer.index,
            "type": layer.kind,
            "precision": layer.precision or "fp32",
            "executed": "fp32",
            "isa": "neon",
            "algorithm": "gemm",
            "ns": min(samples_ns),
            "conversion_ns": 0,
            "bytes": 1_000_000,
        }
        for layer in parse_cfg(cfg_text, "cfg").layers
    ]
    sizes = {"arena_bytes": 1, "weight_bytes": 1, "peak_rss_bytes": 1}
    bench = {"samples_ns": list(samples_ns), **sizes, "instructions": None, "threads": 1, "isa": "neon"}
    return json.dumps(bench | {"layers": layers})
