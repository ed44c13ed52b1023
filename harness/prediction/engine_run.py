"""Profiles inferences of the engine on emulated boards."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Union

from harness import console
from harness.build.ablation import needs_ablation
from harness.build.engine import build_engine
from harness.config.darknet_cfg import read_cfg
from harness.errors import BuildError
from harness.files import open_regular
from harness.prediction.profile import Profile, Profiled, read_profile
from harness.runtimes.base import Workload
from harness.runtimes.engine_runtime import EngineExecution
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.boards.emulated import EmulatedBoard
    from harness.boards.qemu_user import QemuUserBoard
    from harness.config.targets import Target
    from harness.runtimes.base import BenchResult, Command, Execution
    from harness.runtimes.engine import EngineOptions

_TIMEOUT_SECONDS = 3600.0
_WEIGHTS_HEADER_BYTES = 20


@dataclass(frozen=True, kw_only=True)
class LayerDescription:
    """How the engine executes a layer."""

    index: int
    type: str
    executed: str
    isa: str
    algorithm: str
    multiply_adds: int


@dataclass(frozen=True, kw_only=True)
class Inference:
    """One inference of a network on an emulated target."""

    name: str  # for the progress
    target: Target
    files: Mapping[str, Path]  # cfg, weights and, where int8 needs it, calibration, on this machine
    options: EngineOptions
    threads: Sequence[int] = (1,)  # each a prediction; at most as many as the board has cores


ProfiledRun = tuple[Profiled, "BenchResult"]
ProfilingBoard = Union["EmulatedBoard", "QemuUserBoard"]


def profile_emulated(inferences: Sequence[Inference]) -> list[Mapping[int, ProfiledRun]]:
    """Builds the engine and profiles each inference on an emulated board, by its numbers of threads. As
    many run at once as there are cores, the longest first: a profile does not depend on this machine's load.

    The boards are those of `harness run`. Where no container can run, the engine is profiled outside of one:
    it needs the C library alone. Its buffers then lie at other addresses and share other lines of the cache.

    Raises BuildError if a target cannot be emulated or profiled on this machine.
    """
    from harness.qemu.profiler import prepare_profiler

    opened: dict[str, Callable[[], ProfilingBoard]] = {}  # by target
    engines = []
    for inference in inferences:
        target = inference.target
        if target.name not in opened:
            opened[target.name] = _board_of(target)
        ablation = needs_ablation([inference.options.algorithm])
        engines.append(build_engine(target, ablation=ablation).engine)
    prepare_profiler()
    boards = _Boards(opened)
    places = range(len(inferences))

    def profiled(inference: Inference, engine: Path) -> Mapping[int, ProfiledRun]:
        bar.describe(f"profiling {inference.name}")
        with boards.one(inference.target) as board:
            found = _profiled(board, inference, engine)
        bar.advance()
        return found

    with (
        console.progress("profiling", total=len(inferences)) as bar,
        ThreadPoolExecutor(min(os.cpu_count() or 1, len(inferences))) as pool,
        contextlib.closing(boards),  # before the pool waits for its threads
    ):
        order = sorted(places, key=lambda place: _emulation_cost(inferences[place]), reverse=True)
        # The map ends those that wait after an exception.
        found = pool.map(lambda place: profiled(inferences[place], engines[place]), order)
        profiles = dict(zip(order, found, strict=True))
        return [profiles[place] for place in places]


def _board_of(target: Target) -> Callable[[], ProfilingBoard]:
    """Makes boards of a target, in a container if one can run. Raises BuildError if none can be emulated."""
    from harness.boards.emulated import EmulatedBoard
    from harness.boards.qemu_user import QemuUserBoard, qemu_user_missing
    from harness.images.availability import emulation_missing
    from harness.images.image import build_image
    from harness.qemu.profiler import profiling_missing

    if not [*profiling_missing(), *emulation_missing(target)]:
        build_image(target)
        return partial(EmulatedBoard, target)
    if missing := qemu_user_missing():
        raise BuildError(f"{target.name} cannot be emulated here: {'; '.join(missing)}")
    return partial(QemuUserBoard, target)


def _emulation_cost(inference: Inference) -> float:
    """About how long an inference takes under QEMU, relative to others of the same network."""
    network = read_cfg(inference.files["cfg"])
    costs = {"fp32": 4, "fp16": 5, "int8": 3}
    return sum(costs.get(layer.precision, 4) for layer in network.weighted)


class _Boards:
    """The emulated boards of several threads. A board whose thread has finished is used again."""

    def __init__(self, opened: Mapping[str, Callable[[], ProfilingBoard]]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._closed = False
        self._all: list[ProfilingBoard] = []
        self._idle: dict[str, list[ProfilingBoard]] = {}  # by target

    @contextlib.contextmanager
    def one(self, target: Target) -> Iterator[ProfilingBoard]:
        """A board that no other thread uses."""
        with self._lock:
            idle = self._idle.setdefault(target.name, [])
            board = idle.pop() if idle else None
        if board is None:
            board = self._opened[target.name]().__enter__()
            with self._lock:
                self._all.append(board)
                closed = self._closed
            if closed:
                board.__exit__(None, None, None)
                raise BuildError("profiling was ended")
        yield board
        with self._lock:
            idle.append(board)

    def close(self) -> None:
        """Ends the boards and what runs on them."""
        with self._lock:
            self._closed = True
            boards = list(self._all)
        for board in boards:
            board.__exit__(None, None, None)


@contextlib.contextmanager
def _zero_weights(weights: Path) -> Iterator[Path]:
    """A file of the same size whose weights are all zero. The engine executes nearly the same instructions
    for any values, but QEMU calculates several times faster with zeros than with other numbers."""
    with temporary_folder("weights") as folder, open_regular(weights) as original:
        zeros = folder / weights.name
        with zeros.open("wb") as file:
            file.write(original.read(_WEIGHTS_HEADER_BYTES))
            file.truncate(weights.stat().st_size)
        yield zeros


def _profiled(board: ProfilingBoard, inference: Inference, engine: Path) -> Mapping[int, ProfiledRun]:
    with _zero_weights(inference.files["weights"]) as weights:
        paths = board.deploy({**inference.files, "weights": weights, "program": engine})
        execution = EngineExecution(
            board=board.name,
            paths=paths,
            environment={},
            workload=Workload(),
            options=replace(inference.options, calibration=paths.get("calibration")),
        )
        found = profile_execution(board, execution, inference.threads, _TIMEOUT_SECONDS)
    if found is None:
        raise BuildError(f"{board.target.name}: the profiler is not available on its emulated board")
    return found


def profiled_threads(target: Target, threads: int) -> int:
    """Of so many threads, those that a board of the target executes at the same time."""
    return min(threads, target.board.cores) if target.board else 1


def descriptions(bench: BenchResult, multiply_adds: Sequence[int]) -> list[LayerDescription]:
    """The layers of an inference. `multiply_adds`: of each, in order."""
    return [
        LayerDescription(
            index=layer.index,
            type=layer.type,
            executed=layer.executed,
            isa=layer.isa,
            algorithm=layer.algorithm,
            multiply_adds=multiply_adds[layer.index],
        )
        for layer in bench.layers
    ]


def profile_execution(
    board: Board, execution: Execution, threads: Sequence[int], timeout: float
) -> Mapping[int, ProfiledRun] | None:
    """One inference with warm caches, a segment per layer, for each number of threads; None without a
    profiler, and for runtimes that cannot be profiled."""

    def profile(command: Command[BenchResult] | None) -> tuple[Profile, BenchResult] | None:
        return _profile(board, command, timeout) if command else None

    one = profile(execution.marked_bench(profile=True))
    if one is None:
        return None
    found = {}
    for number in dict.fromkeys(threads):
        several = profile(execution.marked_bench(profile=True, threads=number)) if number > 1 else None
        if several is None:
            found[number] = Profiled(alone=one[0]), one[1]
            continue
        alone = profile(execution.planned_bench(number)) or one
        found[number] = Profiled(alone=alone[0], several=several[0]), several[1]
    return found


def _profile(
    board: Board, command: Command[BenchResult], timeout: float
) -> tuple[Profile, BenchResult] | None:
    if board.profiler is None:
        return None
    with temporary_folder("profile") as folder:
        file = folder / "profile"
        completed = board.profiler.profile(
            command.argv, file, timeout=timeout, environment=command.environment
        )
        return read_profile(file), command.read(completed.stdout, math.inf)
