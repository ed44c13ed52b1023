"""What computes a model's outputs for accuracy: the engine, or another runtime with the model's own file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from harness.config.sweep import Options
from harness.runtimes.base import ModelFile, Runtime
from harness.runtimes.engine import Array, EngineOptions, Forward, HostEngine


class Executor(Protocol):
    """Computes outputs on this machine; the methods are those of `HostEngine`."""

    def images_per_chunk(self, cfg: Path) -> int: ...
    def forward(self, cfg: Path, weights: Path, images: Array, options: EngineOptions) -> Forward: ...


@dataclass(frozen=True, kw_only=True)
class FileExecutor:
    """A runtime that executes a file in place of cfg and weights, with the outputs of the cfg's layers."""

    runtime: Runtime
    file: ModelFile
    options: Options  # of the sweep
    engine: HostEngine  # knows the size of the network

    def images_per_chunk(self, cfg: Path) -> int:
        return self.engine.images_per_chunk(cfg)

    def forward(self, cfg: Path, weights: Path, images: Array, options: EngineOptions) -> Forward:  # noqa: ARG002
        heads = self.runtime.outputs(
            self.file, images.astype(np.float32), threads=options.threads, options=self.options
        )
        return Forward(heads=dict(heads))
