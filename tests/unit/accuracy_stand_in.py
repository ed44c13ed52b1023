"""A stand-in for the engine: each test sets its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.runtimes.engine import EngineOptions, Forward, HostEngine

Floats = npt.NDArray[np.float32]

DETECTOR_CFG = """\
[net]
width=4
height=4
channels=3

[convolutional]
filters=7
size=1
stride=1
activation=linear
{keys}
[yolo]
mask=0
anchors=2,2
num=1
classes=2
"""

CLASSIFIER_CFG = """\
[net]
width=4
height=4
channels=3

[convolutional]
filters=6
size=4
stride=1
activation=linear
{keys}
[softmax]
"""


class StandIn(HostEngine):
    """Gives layer 0 as `compute(images, precision)` says; the second layer passes it on."""

    def __init__(self, compute: Callable[[Floats, str], Floats], out: tuple[int, int, int]) -> None:
        super().__init__(Path("stand-in"))
        self.compute, self.out = compute, out
        self.runs: list[tuple[str, EngineOptions]] = []

    def info(self, cfg: Path) -> dict[str, Any]:
        precision = "int8" if "int8=1" in cfg.read_text() else "fp32"
        last = "yolo" if "[yolo]" in cfg.read_text() else "softmax"
        return {
            "input": [3, 4, 4],
            "inputs": [-1],
            "layers": [
                {"index": 0, "type": "convolutional", "out": list(self.out), "precision": precision},
                {"index": 1, "type": last, "out": list(self.out), "precision": ""},
            ],
        }

    def images_per_chunk(self, cfg: Path, *, layers: bool = False) -> int:
        return 3 if layers else 2

    def forward(
        self,
        cfg: Path,
        weights: Path,
        images: npt.NDArray[np.generic],
        options: EngineOptions | None = None,
        *,
        layers: bool = False,
        digest: bool = False,
    ) -> Forward:
        precision = self.info(cfg)["layers"][0]["precision"]
        self.runs.append((precision, options or EngineOptions()))
        result = self.compute(images.astype(np.float32), precision)
        heads = {0: result} if "[yolo]" in cfg.read_text() else {0: result, 1: result}
        return Forward(heads=heads, layers={0: result, 1: result} if layers else {})
