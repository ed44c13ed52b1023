"""Runs the processes of a cell, which give its samples."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.boards.base import RunEndedError
from harness.measure.board_fault import boards_fault
from harness.measure.statistics import drift
from harness.measure.watched_run import Watched, run_watched
from harness.runtimes.base import BenchResult, Command, Execution, LayerResult

if TYPE_CHECKING:
    from harness.boards.base import Board, Completed
    from harness.config.sweep import Protocol

Answer = TypeVar("Answer")
CANNOT_EXECUTE = (126, 127)  # a shell's statuses for a program that it, or its loader, cannot start


@dataclass(frozen=True, kw_only=True)
class Round:
    """One process, and its result."""

    bench: BenchResult
    watched: Watched | None  # None: emulated

    @property
    def samples(self) -> Sequence[int]:
        return self.bench.samples_ns

    @property
    def layers(self) -> Sequence[LayerResult]:
        return self.bench.layers


def measured_in_rounds(
    board: Board, execution: Execution, protocol: Protocol
) -> Generator[None, None, list[Round]]:
    """Runs as many rounds as the protocol says, one after another. If the times drift within the rounds or
    from one to the next, a new round replaces the oldest one. These and the repeated runs of throttled rounds
    together are at most `reruns`."""
    command = execution.bench(
        warmup=protocol.warmup,
        runs=math.ceil(protocol.runs / protocol.rounds),
        min_seconds=protocol.min_seconds / protocol.rounds,
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
            bench = run_command(board, command, protocol.timeout)
        else:
            watched = run_watched(
                board,
                command.argv,
                protocol,
                command.environment,
                board.scratch("samples"),
                reruns=reruns,
                cores=execution.cores,
                most_output=command.most_output,
            )
            made_again += watched.attempts - 1
            bench = command.read(output(watched.completed, command), watched.seconds)
        rounds.append(Round(bench=bench, watched=watched))
        rounds = rounds[-protocol.rounds :]
        if number >= protocol.rounds and (
            board.emulated or not drift([each.samples for each in rounds]).significant
        ):
            break
    return rounds


def run_command(board: Board, command: Command[Answer], timeout: float) -> Answer:
    """Runs a command to its end and reads its output. Raises the error that it ended with."""
    begun = time.monotonic()
    with boards_fault(but=RunEndedError):
        completed = board.run(
            command.argv,
            timeout=timeout,
            environment=command.environment,
            most_output=command.most_output,
        )
    return command.read(output(completed, command), time.monotonic() - begun)


def output(completed: Completed, command: Command[Any]) -> str:
    """The output of a command. Raises the error that it ended with."""
    if completed.status != 0:
        with boards_fault() if completed.status in CANNOT_EXECUTE else nullcontext():
            raise command.failure(completed.status, completed.stderr)
    return completed.stdout
