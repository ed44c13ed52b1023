"""From a profile to a board's milliseconds.

    seconds = compute x cycles / clock / threads + memory x bytes / (2 x copy)

`cycles` are those of the blocks that ran, each as the body of a loop whose data is in the first level of
cache, and those in which that level took in its lines, wherever they came from; `bytes` are the lines that
the last level fetched and wrote back; `copy` is what one core copies in a second, which reads and writes each
byte. Threads share out the cycles and share the memory. The coefficients are the board's;
docs/prediction.md says how they were fitted and how far that can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.config.board_data import LINE_BYTES, BoardData, Coefficients

if TYPE_CHECKING:
    from harness.prediction.profile import Profile, Segment

# Of a board that nothing was measured on. The mean of the other boards' coefficients predicts nine of ten
# published times within 0.14 for one thread and 0.35 for four, on cores that LLVM has models of.
UNVALIDATED_ERROR = 0.40


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a core takes for a profile, in cycles."""

    blocks: Mapping[int, float]  # one round of every hot block, by its number
    line_fill: float  # to take a line into the first level of cache


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a board has to do, whatever its clock."""

    instructions: int
    cycles: float
    bytes_moved: int  # between the last level of cache and memory


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A board's time for what was profiled. Nothing of it was measured on a board."""

    milliseconds: float
    compute_ms: float
    memory_ms: float
    error: float  # fraction of the measured time that nine of ten predictions stay within
    validated: bool  # whether that error was found on this kind of board, with so many threads
    coefficients_of: str = ""  # the target that coefficients are borrowed from, if they are
    work: Work
    layers: Mapping[int, float] = field(default_factory=dict)  # milliseconds, by index

    @property
    def interval_ms(self) -> tuple[float, float]:
        """Within which nine of ten measured times are to be expected."""
        return self.milliseconds / (1 + self.error), self.milliseconds / max(1 - self.error, 0.05)


# Blocks that take part in so much of all instructions are costed; the rest is taken to be like them.
_COVERAGE = 0.998


def hot_blocks(profile: Profile) -> npt.NDArray[np.int64]:
    """Numbers of the blocks that matter, those that executed most first."""
    lengths = _lengths(profile)
    executed = np.zeros(len(profile.blocks), dtype=np.int64)
    for segment in profile.segments:
        executed[segment.blocks] += segment.runs * lengths[segment.blocks]
    order = np.argsort(-executed, kind="stable")
    before = np.cumsum(executed[order]) - executed[order]
    hot: npt.NDArray[np.int64] = order[(before < _COVERAGE * executed.sum()) & (executed[order] > 0)]
    return hot


def predict(profile: Profile, costs: Costs, board: BoardData, threads: int = 1) -> Prediction:
    """For a board with coefficients."""
    works = _works(profile, costs, len(board.caches))
    total = _sum(works)
    coefficients = coefficients_for(board, threads)
    compute, memory = _times(total, board, coefficients, threads)
    return Prediction(
        milliseconds=compute + memory,
        compute_ms=compute,
        memory_ms=memory,
        error=UNVALIDATED_ERROR if coefficients.error_p90 is None else coefficients.error_p90,
        # Between one thread and all cores nothing was compared.
        validated=coefficients.validated and min(threads, board.cores) in (1, board.cores),
        coefficients_of=coefficients.like,
        work=total,
        layers={
            segment.layer: sum(_times(work, board, coefficients, threads))
            for segment, work in zip(profile.segments, works, strict=True)
            if segment.layer is not None
        },
    )


def coefficients_for(board: BoardData, threads: int) -> Coefficients:
    """Those of one thread and of all cores, and between them what lies between."""
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
    """Everything that was executed, with so many levels of cache."""
    return _sum(_works(profile, costs, levels))


def features(work: Work, board: BoardData, threads: int = 1) -> tuple[float, float]:
    """Milliseconds of cycles and of memory before the coefficients."""
    compute = work.cycles / board.clock_hz / min(threads, board.cores)
    memory = work.bytes_moved / (2 * board.copy_bytes_per_second)
    return 1e3 * compute, 1e3 * memory


def _works(profile: Profile, costs: Costs, levels: int) -> list[Work]:
    lengths = _lengths(profile)
    cycles = np.full(len(profile.blocks), np.nan)
    cycles[list(costs.blocks)] = list(costs.blocks.values())
    return [_work(segment, lengths, cycles, costs.line_fill, levels) for segment in profile.segments]


def _sum(works: Sequence[Work]) -> Work:
    return Work(
        instructions=sum(work.instructions for work in works),
        cycles=sum(work.cycles for work in works),
        bytes_moved=sum(work.bytes_moved for work in works),
    )


def _times(work: Work, board: BoardData, coefficients: Coefficients, threads: int) -> tuple[float, float]:
    compute, memory = features(work, board, threads)
    return coefficients.compute * compute, coefficients.memory * memory


def _work(
    segment: Segment,
    lengths: npt.NDArray[np.int64],
    cycles: npt.NDArray[np.float64],
    line_fill: float,
    levels: int,
) -> Work:
    executed = segment.runs * lengths[segment.blocks]
    instructions = int(executed.sum())
    rounds = cycles[segment.blocks]
    hot = ~np.isnan(rounds)
    covered = int(executed[hot].sum())
    # A segment in which nothing is hot is as short as its cost is unimportant: a cycle an instruction.
    spent = (
        float(segment.runs[hot] @ rounds[hot]) * instructions / covered if covered else float(instructions)
    )
    fetched = segment.misses.sum(axis=0) + segment.streamed.sum(axis=0)
    return Work(
        instructions=instructions,
        cycles=spent + line_fill * int(fetched[0]),
        bytes_moved=LINE_BYTES * (int(fetched[levels - 1]) + segment.written_back),
    )


def _lengths(profile: Profile) -> npt.NDArray[np.int64]:
    return np.array([len(block) // 4 for block in profile.blocks], dtype=np.int64)
