"""The runs of `mpe bench` that a cell is made of, and what they print."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.boards.base import MOST_OUTPUT, RunEndedError
from harness.config.darknet_cfg import parse_cfg
from harness.measure.board_fault import boards_fault
from harness.measure.cell import Cell
from harness.measure.statistics import drift
from harness.measure.watched_run import Watched, run_watched
from harness.runtimes.engine import EngineOptions, bench_arguments, failure
from harness.runtimes.engine_output import Asked, AskedLayer, BenchResult, LayerResult, read_bench

if TYPE_CHECKING:
    from harness.boards.base import Board, Completed

CANNOT_EXECUTE = (126, 127)  # a shell's statuses for a program that it, or its loader, cannot start


@dataclass(frozen=True, kw_only=True)
class Round:
    """A run of `mpe bench`."""

    bench: BenchResult
    watched: Watched | None  # None: emulated

    @property
    def samples(self) -> Sequence[int]:
        return self.bench.samples_ns

    @property
    def layers(self) -> Sequence[LayerResult]:
        """Its profile."""
        return self.bench.layers


def measured_in_rounds(
    board: Board,
    cell: Cell,
    paths: Mapping[str, str],
    options: EngineOptions,
    environment: Mapping[str, str],
    multiply_adds: int = 0,
) -> Generator[None, None, list[Round]]:
    """Rounds one after another, as many as the protocol says. Where times drift within them or from one to
    the next, the oldest is replaced by a new one. With runs that are made again these are at most `reruns`.
    """
    protocol = cell.protocol
    asked = _asked(cell, multiply_adds)
    argv = bench_arguments(
        paths["engine"],
        cfg=paths["cfg"],
        weights=paths["weights"],
        options=options,
        warmup=protocol.warmup,
        runs=asked.runs,
        min_seconds=asked.min_seconds,
        profile=True,
    )
    rounds: list[Round] = []
    made_again = 0
    for number in range(1, protocol.rounds + protocol.reruns + 1):
        reruns = protocol.reruns - made_again - max(number - protocol.rounds, 0)
        if reruns < 0:
            break
        if number > 1:
            yield
        watched, command = None, f"mpe bench on {board.name}"
        if board.emulated:
            ran = run_engine(board, argv, protocol.timeout, environment, most_output=asked.most_output)
            bench = read_bench(ran.printed, asked, command, seconds=ran.seconds)
        else:
            log, cores = board.scratch("samples"), options.cores_in_use
            watched = run_watched(
                board,
                argv,
                protocol,
                environment,
                log,
                reruns=reruns,
                cores=cores,
                most_output=asked.most_output,
            )
            made_again += watched.attempts - 1
            printed = output(watched.completed, command)
            bench = read_bench(printed, asked, command, seconds=watched.seconds)
        rounds.append(Round(bench=bench, watched=watched))
        rounds = rounds[-protocol.rounds :]
        if number >= protocol.rounds and (
            board.emulated or not drift([each.samples for each in rounds]).significant
        ):
            break
    return rounds


def _asked(cell: Cell, multiply_adds: int) -> Asked:
    """What a cell asks of each of its rounds."""
    protocol = cell.protocol
    return Asked(
        runs=math.ceil(protocol.runs / protocol.rounds),
        min_seconds=protocol.min_seconds / protocol.rounds,
        threads=cell.threads,
        multiply_adds=multiply_adds,
        layers=_layers(cell.variant.cfg_text),
    )


@lru_cache(256)  # cells that differ in something else share it
def _layers(cfg_text: str) -> Sequence[AskedLayer]:
    layers = parse_cfg(cfg_text, "cfg").layers
    return tuple(AskedLayer(type=layer.kind, precision=layer.precision) for layer in layers)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What an engine printed that ended well, and the seconds that it took, by this machine's clock."""

    printed: str
    seconds: float


def run_engine(
    board: Board,
    argv: Sequence[str],
    timeout: float,
    environment: Mapping[str, str],
    *,
    most_output: int = MOST_OUTPUT,
) -> Ran:
    begun = time.monotonic()
    with boards_fault(but=RunEndedError):
        completed = board.run(argv, timeout=timeout, environment=environment, most_output=most_output)
    seconds = time.monotonic() - begun
    return Ran(printed=output(completed, f"mpe {argv[1]} on {board.name}"), seconds=seconds)


def output(completed: Completed, command: str) -> str:
    """What an engine printed. Raises the error that it ended with, if it did."""
    if completed.status != 0:
        with boards_fault() if completed.status in CANNOT_EXECUTE else nullcontext():
            raise failure(completed.status, completed.stderr, command=command)
    return completed.stdout
