"""From a profile to a board's milliseconds.

    seconds = compute x cycles / clock + memory x bytes / (2 x copy)

`cycles` are the cycles of all executed blocks, each as the body of a loop with its data in the L1 cache, plus
those to fill L1 lines. Of several threads they are those of the slowest part of each parallel loop, and of
what is not divided. `bytes` are the lines that the last-level cache fetched and wrote back in a run of one
thread; threads share the memory's bandwidth. `copy` is the number of bytes that one core copies per second; a
copy reads and writes each byte. docs/prediction.md describes the coefficients and their error.

A profile of one thread tells nothing about the parts of several. They are then assumed to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.config.board_data import LINE_BYTES, BoardData, Coefficients
from harness.prediction.several_threads import critical_path

if TYPE_CHECKING:
    from harness.prediction.profile import Profile, Segment

# For a board without measurements. With the mean of the other boards' coefficients, 90 % of published times
# are within 0.14 for one thread and 0.35 for four, on cores with a model in LLVM.
UNVALIDATED_ERROR = 0.40


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of a profile on a core, in cycles."""

    blocks: Mapping[int, float]  # one iteration of every hot block, by its number
    line_fill: float  # to fill a line of the L1 cache
    loop: float = 0.0  # to start the threads of a parallel loop, and to wait for them


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a board, independent of its clock."""

    instructions: int  # of the critical path, as the cycles
    cycles: float
    bytes_moved: int  # between the last level of cache and memory
    threads: int = 1  # that the cycles are divided between


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A board's time for a profile; predicted, not measured."""

    milliseconds: float
    compute_ms: float
    memory_ms: float
    error: float  # 90th percentile of the relative error
    validated: bool  # whether the error was determined on this kind of board and number of threads
    divided: bool = False  # whether one thread's work is assumed to be divided equally between several
    coefficients_of: str = ""  # the target from which coefficients are borrowed, if any
    work: Work
    layers: Mapping[int, float] = field(default_factory=dict)  # milliseconds, by index

    @property
    def interval_ms(self) -> tuple[float, float]:
        """The interval that holds 90 % of measured times."""
        return self.milliseconds / (1 + self.error), self.milliseconds / max(1 - self.error, 0.05)


# The hottest blocks with this share of all instructions are costed; the others are assumed to be similar.
_COVERAGE = 0.998


def hot_blocks(profile: Profile) -> npt.NDArray[np.int64]:
    """Numbers of the hot blocks, most executed instructions first."""
    lengths = _lengths(profile)
    executed = np.zeros(len(profile.blocks), dtype=np.int64)
    for segment in profile.segments:
        executed[segment.blocks] += segment.runs * lengths[segment.blocks]
    order = np.argsort(-executed, kind="stable")
    before = np.cumsum(executed[order]) - executed[order]
    hot: npt.NDArray[np.int64] = order[(before < _COVERAGE * executed.sum()) & (executed[order] > 0)]
    return hot


def predict(profile: Profile, costs: Costs, board: BoardData, threads: int = 1) -> Prediction:
    """Predicts the time on a board with coefficients, of a profile of so many threads or of one."""
    works = works_of(profile, costs, len(board.caches))
    work = total(works)
    coefficients = fitted_coefficients(board, threads)
    compute, memory = times(work, board, coefficients, threads)
    layers: dict[int, float] = {}
    for segment, share in works:
        if segment.layer is not None:
            part = sum(times(share, board, coefficients, threads))
            layers[segment.layer] = layers.get(segment.layer, 0.0) + part
    divided = work.threads < min(threads, board.cores)
    error = None if divided else coefficients.error_p90
    return Prediction(
        milliseconds=compute + memory,
        compute_ms=compute,
        memory_ms=memory,
        error=UNVALIDATED_ERROR if error is None else error,
        # Predictions between one thread and all cores were not validated.
        validated=error is not None and min(threads, board.cores) in (1, board.cores),
        divided=divided,
        coefficients_of=coefficients.like,
        work=work,
        layers=layers,
    )


def fitted_coefficients(board: BoardData, threads: int) -> Coefficients:
    """Coefficients for one thread or for all cores, interpolated between these."""
    one = board.coefficients
    if one is None:
        raise ValueError("a prediction needs coefficients")
    every = board.coefficients_all_cores
    share = (min(threads, board.cores) - 1) / (board.cores - 1) if board.cores > 1 else 0.0
    if share == 0:
        return one
    if every is None:
        return replace(one, error_p90=None)
    if share == 1:
        return every
    errors = [part.error_p90 for part in (one, every)]
    return replace(
        one,
        compute=(1 - share) * one.compute + share * every.compute,
        memory=(1 - share) * one.memory + share * every.memory,
        like=one.like or every.like,
        error_p90=None if None in errors else max(error for error in errors if error is not None),
    )


def work_of(profile: Profile, costs: Costs, levels: int) -> Work:
    """The work of a whole profile, with this number of cache levels."""
    return total(works_of(profile, costs, levels))


def features(work: Work, board: BoardData, threads: int = 1) -> tuple[float, float]:
    """Milliseconds of cycles and of memory before the coefficients."""
    undivided = min(threads, board.cores) / work.threads  # between so many threads, equally
    compute = work.cycles / board.clock_hz / undivided
    memory = work.bytes_moved / (2 * board.copy_bytes_per_second)
    return 1e3 * compute, 1e3 * memory


def works_of(profile: Profile, costs: Costs, levels: int) -> list[tuple[Segment, Work]]:
    """The segments of the critical path, with the work of each."""
    lengths = _lengths(profile)
    cycles = np.full(len(profile.blocks), np.nan)
    cycles[list(costs.blocks)] = list(costs.blocks.values())

    def work(segment: Segment) -> Work:
        return _work(segment, lengths, cycles, costs, levels)

    path = critical_path(profile.segments, lambda segment: work(segment).cycles)
    return [(segment, replace(work(segment), threads=profile.threads)) for segment in path]


def total(works: Sequence[tuple[Segment, Work]]) -> Work:
    """The work of all segments."""
    return Work(
        instructions=sum(work.instructions for _, work in works),
        cycles=sum(work.cycles for _, work in works),
        bytes_moved=sum(work.bytes_moved for _, work in works),
        threads=max((work.threads for _, work in works), default=1),
    )


def times(work: Work, board: BoardData, coefficients: Coefficients, threads: int) -> tuple[float, float]:
    """Milliseconds of computing and of memory."""
    compute, memory = features(work, board, threads)
    return coefficients.compute * compute, coefficients.memory * memory


def _work(
    segment: Segment,
    lengths: npt.NDArray[np.int64],
    cycles: npt.NDArray[np.float64],
    costs: Costs,
    levels: int,
) -> Work:
    executed = segment.runs * lengths[segment.blocks]
    instructions = int(executed.sum())
    rounds = cycles[segment.blocks]
    hot = ~np.isnan(rounds)
    covered = int(executed[hot].sum())
    # A segment without hot blocks is short: assume a cycle per instruction.
    spent = (
        float(segment.runs[hot] @ rounds[hot]) * instructions / covered if covered else float(instructions)
    )
    filled = int(segment.misses[:, 0].sum() + segment.streamed[:, 0].sum())
    return Work(
        instructions=instructions,
        cycles=spent + costs.line_fill * filled + costs.loop * segment.loops,
        bytes_moved=LINE_BYTES * segment.lines_moved(levels),
    )


def _lengths(profile: Profile) -> npt.NDArray[np.int64]:
    return np.array([len(block) // 4 for block in profile.blocks], dtype=np.int64)
