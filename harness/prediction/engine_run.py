"""Profiles inferences of the engine on emulated boards."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.build.ablation import needs_ablation
from harness.build.engine import build_engine
from harness.config.darknet_cfg import read_cfg
from harness.errors import BuildError
from harness.prediction.profile import Profile, read_profile
from harness.runtimes.base import Workload
from harness.runtimes.engine_runtime import EngineExecution
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.boards.emulated import EmulatedBoard
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


@dataclass(frozen=True, kw_only=True)
class Inference:
    """One inference of a network on an emulated target."""

    name: str  # for the progress
    target: Target
    files: Mapping[str, Path]  # cfg, weights and, where int8 needs it, calibration, on this machine
    options: EngineOptions


Profiled = tuple["Profile", Sequence[LayerDescription]]


def profile_emulated(inferences: Sequence[Inference]) -> list[Profiled]:
    """Builds the engine and profiles each inference on an emulated board, as many at once as there are cores
    and the longest first: a profile does not depend on this machine's load.

    Raises BuildError if a target cannot be emulated or profiled on this machine.
    """
    from harness.images.availability import emulation_missing
    from harness.images.image import build_image
    from harness.qemu.profiler import prepare_profiler, profiling_missing

    engines = []
    for inference in inferences:
        target = inference.target
        if missing := [*emulation_missing(target), *profiling_missing()]:
            raise BuildError(f"{target.name} cannot be emulated here: {'; '.join(missing)}")
        ablation = needs_ablation([inference.options.algorithm])
        engines.append(build_engine(target, ablation=ablation).engine)
        build_image(target)
    prepare_profiler()
    boards = _OpenBoards()
    places = range(len(inferences))

    def profiled(inference: Inference, engine: Path) -> Profiled:
        bar.describe(f"profiling {inference.name}")
        with boards.open(inference.target) as board:
            found = _profiled(board, inference, engine)
        bar.advance()
        return found

    with (
        console.progress("profiling", total=len(inferences)) as bar,
        ThreadPoolExecutor(min(os.cpu_count() or 1, len(inferences))) as pool,
    ):
        try:
            order = sorted(places, key=lambda place: _emulation_cost(inferences[place]), reverse=True)
            # The map ends those that wait after an exception.
            found = pool.map(lambda place: profiled(inferences[place], engines[place]), order)
            profiles = dict(zip(order, found, strict=True))
            return [profiles[place] for place in places]
        except BaseException:
            boards.close()
            raise


def _emulation_cost(inference: Inference) -> float:
    """About how long an inference takes under QEMU, which computes halves in software, relative to others of
    the same network."""
    network = read_cfg(inference.files["cfg"])
    halves = 4 if "fp16" in inference.target.features else 2
    costs = {"fp32": 2, "fp16": halves, "int8": 1}
    return sum(costs.get(layer.precision, 1) for layer in network.weighted)


class _OpenBoards:
    """The emulated boards of several threads, which another one can close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boards: set[EmulatedBoard] = set()
        self._closed = False

    @contextlib.contextmanager
    def open(self, target: Target) -> Iterator[EmulatedBoard]:
        from harness.boards.emulated import EmulatedBoard

        with EmulatedBoard(target) as board:
            with self._lock:
                if self._closed:
                    raise BuildError("profiling was ended")
                self._boards.add(board)
            try:
                yield board
            finally:
                with self._lock:
                    self._boards.discard(board)

    def close(self) -> None:
        """Ends what runs on the boards."""
        with self._lock:
            self._closed = True
            boards = list(self._boards)
        for board in boards:
            board.__exit__(None, None, None)


def _profiled(board: EmulatedBoard, inference: Inference, engine: Path) -> Profiled:
    paths = board.deploy({**inference.files, "program": engine})
    execution = EngineExecution(
        board=board.name,
        paths=paths,
        environment={},
        workload=Workload(),
        options=replace(inference.options, calibration=paths.get("calibration")),
    )
    command = execution.marked_bench(profile=True)
    profiled = profile_command(board, command, _TIMEOUT_SECONDS)
    if profiled is None:
        raise BuildError(f"{board.target.name}: the profiler is not available on its emulated board")
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
