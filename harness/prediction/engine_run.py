"""Profiles one inference of the engine on an emulated board."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.build.ablation import needs_ablation
from harness.build.engine import build_engine
from harness.errors import BuildError
from harness.prediction.profile import Profile, read_profile
from harness.runtimes.base import Workload
from harness.runtimes.engine_runtime import EngineExecution
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target
    from harness.runtimes.base import BenchResult, Command
    from harness.runtimes.engine import EngineOptions

_TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class LayerDescription:
    """How the engine executes a layer."""

    index: int
    type: str
    executed: str
    isa: str
    algorithm: str


def profile_emulated(
    target: Target, files: Mapping[str, Path], options: EngineOptions
) -> tuple[Profile, Sequence[LayerDescription]]:
    """Builds the engine, starts an emulated board, and profiles one inference on it.

    `files` are this machine's cfg, weights and, where int8 needs it, calibration. Raises BuildError if the
    target cannot be emulated or profiled on this machine.
    """
    from harness.boards.emulated import EmulatedBoard
    from harness.images.availability import emulation_missing
    from harness.qemu.profiler import profiling_missing

    if missing := [*emulation_missing(target), *profiling_missing()]:
        raise BuildError(f"{target.name} cannot be emulated here: {'; '.join(missing)}")
    engine = build_engine(target, ablation=needs_ablation([options.algorithm])).engine
    with EmulatedBoard(target) as board, console.progress(f"profiling on {board.name}", None):
        paths = board.deploy({**files, "program": engine})
        execution = EngineExecution(
            board=board.name,
            paths=paths,
            environment={},
            workload=Workload(),
            options=replace(options, calibration=paths.get("calibration")),
        )
        command = execution.marked_bench(warmup=1, profile=True)
        profiled = profile_command(board, command, _TIMEOUT_SECONDS)
    if profiled is None:
        raise BuildError(f"{target.name}: the profiler is not available on its emulated board")
    profile, bench = profiled
    names = [field.name for field in fields(LayerDescription)]
    return profile, [
        LayerDescription(**{name: getattr(layer, name) for name in names}) for layer in bench.layers
    ]


def profile_command(
    board: Board, command: Command[BenchResult], timeout: float
) -> tuple[Profile, BenchResult] | None:
    """One inference with warm caches, a segment per layer, and the command's result; None without a
    profiler."""
    if board.profiler is None:
        return None
    with temporary_folder("profile") as folder:
        file = folder / "profile"
        completed = board.profiler.profile(
            command.argv, file, timeout=timeout, environment=command.environment
        )
        return read_profile(file), command.read(completed.stdout, math.inf)
