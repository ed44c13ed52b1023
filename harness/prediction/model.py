"""From a profile to a board's milliseconds.

    seconds = compute x cycles / clock / threads + memory x bytes / (2 x copy)

`cycles` are the cycles of all executed blocks, each as the body of a loop with its data in the L1 cache, plus
those to fill L1 lines. `bytes` are the lines that the last-level cache fetched and wrote back. `copy` is the
number of bytes that one core copies per second; a copy reads and writes each byte. Threads divide the cycles
between them and share the memory bandwidth. They never beat one thread's time divided by their number.
docs/prediction.md describes the coefficients and their error.
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

# For a board without measurements. With the mean of the other boards' coefficients, 90 % of published times
# are within 0.14 for one thread and 0.35 for four, on cores with a model in LLVM.
UNVALIDATED_ERROR = 0.40


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of a profile on a core, in cycles."""

    blocks: Mapping[int, float]  # one iteration of every hot block, by its number
    line_fill: float  # to fill a line of the L1 cache


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a board, independent of its clock."""

    instructions: int
    cycles: float
    bytes_moved: int  # between the last level of cache and memory


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A board's time for a profile; predicted, not measured."""

    milliseconds: float
    compute_ms: float
    memory_ms: float
    error: float  # 90th percentile of the relative error
    validated: bool  # whether the error was determined on this kind of board and number of threads
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
    """Predicts the time on a board with coefficients."""
    works = works_of(profile, costs, len(board.caches))
    work = total(works)
    coefficients = coefficients_for(work, board, threads)
    compute, memory = times(work, board, coefficients, threads)
    layers: dict[int, float] = {}
    for segment, share in zip(profile.segments, works, strict=True):
        if segment.layer is not None:
            part = sum(times(share, board, coefficients, threads))
            layers[segment.layer] = layers.get(segment.layer, 0.0) + part
    return Prediction(
        milliseconds=compute + memory,
        compute_ms=compute,
        memory_ms=memory,
        error=UNVALIDATED_ERROR if coefficients.error_p90 is None else coefficients.error_p90,
        # Predictions between one thread and all cores were not validated.
        validated=coefficients.validated and min(threads, board.cores) in (1, board.cores),
        coefficients_of=coefficients.like,
        work=work,
        layers=layers,
    )


def coefficients_for(work: Work, board: BoardData, threads: int) -> Coefficients:
    """Coefficients for the whole work of a profile: those for so many threads, scaled where the threads would
    otherwise beat one thread's time divided by their number.

    Coefficients for one core and for all are fitted separately, which does not exclude that.
    """
    found = fitted_coefficients(board, threads)
    least = sum(times(work, board, fitted_coefficients(board, 1), 1)) / min(threads, board.cores)
    time = sum(times(work, board, found, threads))
    if not 0 < time < least:
        return found
    return replace(found, compute=found.compute * least / time, memory=found.memory * least / time)


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
    compute = work.cycles / board.clock_hz / min(threads, board.cores)
    memory = work.bytes_moved / (2 * board.copy_bytes_per_second)
    return 1e3 * compute, 1e3 * memory


def works_of(profile: Profile, costs: Costs, levels: int) -> list[Work]:
    """The work of each segment."""
    lengths = _lengths(profile)
    cycles = np.full(len(profile.blocks), np.nan)
    cycles[list(costs.blocks)] = list(costs.blocks.values())
    return [_work(segment, lengths, cycles, costs.line_fill, levels) for segment in profile.segments]


def total(works: Sequence[Work]) -> Work:
    """The work of all segments."""
    return Work(
        instructions=sum(work.instructions for work in works),
        cycles=sum(work.cycles for work in works),
        bytes_moved=sum(work.bytes_moved for work in works),
    )


def times(work: Work, board: BoardData, coefficients: Coefficients, threads: int) -> tuple[float, float]:
    """Milliseconds of computing and of memory."""
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
    # A segment without hot blocks is short: assume a cycle per instruction.
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
