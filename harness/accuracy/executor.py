"""What computes a model's outputs for accuracy.

The engine does, on this machine or on others, or another runtime with the model's own file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.config.sweep import Options
from harness.runtimes.base import ModelFile, Runtime
from harness.runtimes.engine import Array, EngineOptions, Forward, HostEngine, joined
from harness.tasks.base import Task, TaskRunner
from harness.temporary import temporary_folder

_TASKS = 32  # that are made of the pictures of a call


class Executor(Protocol):
    """Computes outputs; the methods are those of `HostEngine`."""

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


@dataclass(frozen=True, kw_only=True)
class ClusterExecutor:
    """The engine, with a few pictures in each task of a runner."""

    runner: TaskRunner
    engine: HostEngine

    def images_per_chunk(self, cfg: Path) -> int:
        return _TASKS * self._images_per_task(cfg)

    def forward(self, cfg: Path, weights: Path, images: Array, options: EngineOptions) -> Forward:
        found: dict[str, Forward] = {}
        size, arithmetic = self._images_per_task(cfg), self.engine.arithmetic(options.isa)
        with temporary_folder("batches") as folder:
            batches = []
            for start in range(0, len(images), size):
                batches.append(folder / f"{start}.npy")
                np.save(batches[-1], np.ascontiguousarray(images[start : start + size]), allow_pickle=False)
            shared = (self.engine, arithmetic, cfg, weights, replace(options, threads=1))
            self.runner.run(
                [Task(name=batch.name, function=_forward, arguments=(*shared, batch)) for batch in batches],
                found.__setitem__,
            )
        return Forward(heads=joined([found[batch.name].heads for batch in batches]))

    def _images_per_task(self, cfg: Path) -> int:
        return max(1, self.engine.images_per_chunk(cfg) // 8)  # so that a call has few of the engine's chunks


def _forward(
    engine: HostEngine,
    arithmetic: dict[str, Any],
    cfg: Path,
    weights: Path,
    options: EngineOptions,
    batch: Path,
) -> Forward:
    engine.check_arithmetic(arithmetic, options.isa)
    return engine.forward_file(cfg, weights, batch, options)
