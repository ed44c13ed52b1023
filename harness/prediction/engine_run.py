"""Profiles one inference of the engine on an emulated board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.build.engine import build_engine
from harness.errors import BuildError
from harness.prediction.profile import Profile, read_profile
from harness.runtimes.engine import bench_arguments
from harness.runtimes.engine_output import Asked, read_bench
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target
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
    engine = build_engine(target).engine
    with EmulatedBoard(target) as board, console.progress(f"profiling on {board.name}", None):
        paths = board.deploy({**files, "engine": engine})
        options = replace(options, calibration=paths.get("calibration"))
        profiled = profile_engine(board, paths, options, timeout=_TIMEOUT_SECONDS)
    if profiled is None:
        raise BuildError(f"{target.name}: the profiler is not available on its emulated board")
    return profiled


def profile_engine(
    board: Board,
    paths: Mapping[str, str],
    options: EngineOptions,
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> tuple[Profile, Sequence[LayerDescription]] | None:
    """One inference with warm caches, a segment per layer, and its layers; None without a profiler.

    `paths` of engine, cfg and weights are those on the board; calibration is in the options.
    """
    if board.profiler is None:
        return None
    # One thread: waiting threads spin, which would add random counts.
    argv = bench_arguments(
        paths["engine"],
        cfg=paths["cfg"],
        weights=paths["weights"],
        options=replace(options, threads=1),
        warmup=1,
        runs=1,
        min_seconds=0,
        profile=True,
        mark=True,
    )
    with temporary_folder("profile") as folder:
        file = folder / "profile"
        completed = board.profiler.profile(argv, file, timeout=timeout, environment=environment)
        return read_profile(file), _layers(completed.stdout, f"mpe bench under a profiler on {board.name}")


def _layers(stdout: str, command: str) -> list[LayerDescription]:
    layers = read_bench(stdout, Asked(runs=1), command).layers
    names = LayerDescription.__dataclass_fields__
    return [LayerDescription(**{name: getattr(layer, name) for name in names}) for layer in layers]
