"""Runs a program on a board under known conditions: on a cool board, with a fixed governor and recorded
sensors, and again if the board was throttled."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import console
from harness.boards.base import MOST_OUTPUT, RunEndedError
from harness.boards.command_line import completed as by_shell
from harness.boards.energy import metered
from harness.boards.sensors.conditions import Conditions, assess, merged
from harness.boards.sensors.cool_down import Cooling, wait_until_cool
from harness.boards.sensors.governor import STEADY, HeldGovernor, held_governor
from harness.boards.sensors.sampler import Sample, sampled, take_samples
from harness.boards.sensors.state import BoardState, read_state
from harness.measure.board_fault import boards_fault
from harness.measure.result import CellConditions

if TYPE_CHECKING:
    from harness.boards.base import Board, Completed
    from harness.config.sweep import Protocol

INTERVAL_SECONDS = 0.25
MOST_SAMPLES = 4000  # for a run of known length


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A run and its conditions; the last one if it was repeated."""

    completed: Completed
    conditions: Conditions
    cooling: Cooling
    governor: HeldGovernor
    attempts: int
    seconds: float  # its duration, by this machine's clock
    samples: Sequence[Sample]  # of the board's sensors during the run
    before: BoardState  # describes the sensors


def conditions_of(runs: Sequence[Watched]) -> CellConditions | None:
    """The conditions of a cell's runs; None without a run."""
    if not runs:
        return None
    return CellConditions(
        **vars(merged([run.conditions for run in runs])),
        cooling=[run.cooling for run in runs],
        governor=[run.governor for run in runs],
    )


def run_watched(
    board: Board,
    argv: Sequence[str],
    protocol: Protocol,
    environment: Mapping[str, str],
    log: str,
    *,
    reruns: int,
    cores: Collection[int],
    most_output: int = MOST_OUTPUT,
) -> Watched:
    """Runs `argv`, which uses these cores, to its end under the protocol's conditions, and again while it is
    throttled, at most `reruns` times. `log` is a file on the board that is free to use; it is removed.

    A run that fails is not repeated: the caller judges its status. Raises RunEndedError as `Board.run` does,
    and BoardFaultError if anything but `argv` fails.
    """
    core = _another_core(board, cores)
    interval = max(INTERVAL_SECONDS, protocol.min_seconds / MOST_SAMPLES)
    command = sampled(argv, log, board.sensors, interval, core)
    for attempt in range(1, reruns + 2):
        with boards_fault():
            cooling = wait_until_cool(board, board.sensors, protocol.cool_below, protocol.cool_seconds)
        with boards_fault(but=RunEndedError), held_governor(board, board.sensors, STEADY) as governor:
            with boards_fault():
                before = read_state(board, board.sensors)
            with metered(board.sensors.meter) as energy:
                begun = time.monotonic()
                ended = board.run(
                    command, timeout=protocol.timeout, environment=environment, most_output=most_output
                )
                seconds = time.monotonic() - begun
            ended = by_shell(ended.status, ended.stdout, ended.stderr)
            with boards_fault():
                # A run that is not ended by its timeout cannot have more.
                most = MOST_SAMPLES + int(protocol.timeout / interval)
                samples, after = take_samples(board, log, most), read_state(board, board.sensors)
            conditions = assess(samples, before, after, governor, energy)
        found = Watched(
            completed=ended,
            conditions=conditions,
            cooling=cooling,
            governor=governor,
            attempts=attempt,
            seconds=seconds,
            samples=samples,
            before=before,
        )
        if ended.status != 0 or not conditions.throttled:
            break
        console.log(f"{board.name} was throttled: {'; '.join(conditions.reasons)}")
    return found


def _another_core(board: Board, used: Collection[int]) -> int | None:
    """The core for the sampler: the last unused one; None if all are used."""
    count = board.target.board.cores if board.target.board else 1
    return max(set(range(count)) - set(used), default=None)
