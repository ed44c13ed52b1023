"""The runs of `mpe bench` that a cell is made of, and what they print."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from harness.boards.board import RunTimeoutError
from harness.errors import HarnessError
from harness.runtimes.engine import EngineOptions, bench_arguments, failure
from harness.sweep.board_fault import boards_fault
from harness.sweep.cell import Cell
from harness.sweep.statistics import drift
from harness.sweep.store import LayerRow
from harness.sweep.watched_run import Watched, run_watched

if TYPE_CHECKING:
    from harness.boards.board import Board, Completed

_LAYER = itemgetter(*(name for name in LayerRow.__dataclass_fields__ if name != "predicted_ns"))
CANNOT_EXECUTE = (126, 127)  # a shell's statuses for a program that it, or its loader, cannot start


@dataclass(frozen=True, kw_only=True)
class Round:
    """A run of `mpe bench`."""

    bench: Mapping[str, Any]
    samples: Sequence[int]
    watched: Watched | None  # None: emulated

    @property
    def layers(self) -> list[LayerRow]:
        """Its profile. Raises HarnessError where that is incomplete."""
        try:
            return [LayerRow(*_LAYER(row)) for row in self.bench.get("layers", [])]
        except KeyError as error:
            raise HarnessError(f"mpe bench gave a layer without {error}") from None


def measured_in_rounds(
    board: Board,
    cell: Cell,
    paths: Mapping[str, str],
    options: EngineOptions,
    environment: Mapping[str, str],
) -> Generator[None, None, list[Round]]:
    """Rounds one after another, as many as the protocol says. Where times drift within them or from one to
    the next, the oldest is replaced by a new one. With runs that are made again these are at most `reruns`.
    """
    protocol = cell.protocol
    argv = bench_arguments(
        paths["engine"],
        cfg=paths["cfg"],
        weights=paths["weights"],
        options=options,
        warmup=protocol.warmup,
        runs=math.ceil(protocol.runs / protocol.rounds),
        min_seconds=protocol.min_seconds / protocol.rounds,
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
        watched = None
        if board.emulated:
            bench = run_engine(board, argv, protocol.timeout, environment)
        else:
            log, cores = board.scratch("samples"), options.cores_in_use
            watched = run_watched(board, argv, protocol, environment, log, reruns=reruns, cores=cores)
            made_again += watched.attempts - 1
            bench = output(watched.completed, f"mpe bench on {board.name}")
        rounds.append(Round(bench=bench, samples=_samples(bench), watched=watched))
        rounds = rounds[-protocol.rounds :]
        if number >= protocol.rounds and (
            board.emulated or not drift([each.samples for each in rounds]).significant
        ):
            break
    return rounds


def run_engine(
    board: Board, argv: Sequence[str], timeout: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    with boards_fault(but=RunTimeoutError):
        completed = board.run(argv, timeout=timeout, environment=environment)
    return output(completed, f"mpe {argv[1]} on {board.name}")


def output(completed: Completed, command: str) -> dict[str, Any]:
    if completed.status != 0:
        with boards_fault() if completed.status in CANNOT_EXECUTE else nullcontext():
            raise failure(completed.status, completed.stderr, command=command)
    try:
        data = json.loads(completed.stdout)
    except json.JSONDecodeError as error:
        raise HarnessError(f"{command}: its output is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise HarnessError(f"{command}: its output is no JSON object")
    return data


def _samples(bench: Mapping[str, Any]) -> list[int]:
    samples = [int(sample) for sample in bench.get("samples_ns", [])]
    if not samples or min(samples) <= 0:
        raise HarnessError("mpe bench gave no samples, or one without duration")
    return samples
