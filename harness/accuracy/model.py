"""A model for the accuracy stage: files, input shape, and how to read its outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.accuracy.heads import Outputs, read_outputs
from harness.accuracy.preprocess import RESIZES
from harness.config.darknet_cfg import read_cfg
from harness.config.file_kind import expect_weights
from harness.config.policy import BUILT_IN, apply
from harness.errors import ConfigurationError
from harness.runtimes.engine import HostEngine
from harness.temporary import temporary_folder


@dataclass(frozen=True, kw_only=True)
class Model:
    """A cfg with its weights."""

    cfg: Path
    weights: Path
    input: tuple[int, int, int]  # channels, height, width
    layers: tuple[dict[str, Any], ...]  # the rows of `mpe info`
    outputs: Outputs

    @property
    def classes(self) -> int:
        """The number of classes."""
        if self.outputs.detects:
            return self.outputs.heads[0].classes
        channels, height, width = self.layers[-1]["out"]
        return int(channels * height * width)

    @property
    def mixed(self) -> bool:
        """Whether the cfg requests another precision than fp32 for any layer."""
        return any(layer["precision"] in ("fp16", "int8") for layer in self.layers)

    def resize(self, asked: str | None) -> str:
        """The method of resizing: as requested, else the most likely one of the training."""
        if asked is None:
            if not self.outputs.detects:
                return "crop"
            return "letterbox" if self.outputs.letter_box else "stretch"
        if asked not in RESIZES:
            raise ConfigurationError(f"unknown resize {asked}: choose from {', '.join(RESIZES)}")
        return asked


def load_model(engine: HostEngine, cfg: Path, weights: Path) -> Model:
    """Reads a model's shape; the engine checks the cfg. Raises ConfigurationError with file and line."""
    expect_weights(weights)
    info = engine.info(cfg)
    channels, height, width = info["input"]
    return Model(
        cfg=cfg,
        weights=weights,
        input=(channels, height, width),
        layers=tuple(info["layers"]),
        outputs=read_outputs(cfg),
    )


@contextlib.contextmanager
def in_fp32(model: Model) -> Iterator[Model]:
    """The same model with every layer in fp32, for comparison."""
    if not model.mixed:
        yield model
        return
    with temporary_folder("fp32") as folder:
        cfg = folder / model.cfg.name
        cfg.write_text(apply(BUILT_IN["fp32"], read_cfg(model.cfg).text), encoding="latin-1", newline="")
        yield replace(model, cfg=cfg)
