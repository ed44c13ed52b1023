"""Estimates how long a sweep will take, before it begins.

The estimate of a cell is the time of its last measurement. Without one it follows from the times and
multiply-adds of other cells of the target, and without these from its own multiply-adds and the target's
clock, which gives only the order of magnitude. Compiling engines, building images and waiting for boards are
not included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.multiply_adds import multiply_adds
from harness.store.read_only import stored_results
from harness.store.store import FILE_NAME
from harness.sweep.board_activity import Timings

if TYPE_CHECKING:
    from harness.config.sweep import Model
    from harness.config.targets import Target
    from harness.measure.cell import Cell
    from harness.measure.spec import CellSpec

# Multiply-adds per second. Those of this machine and of QEMU were measured on a server of 2024. A board's are
# those of its vector units per cycle, times the share that the engine reaches (docs/performance.md).
_HOST_RATE, _EMULATED_RATE = 24e9, 0.15e9
_SHARE_OF_PEAK, _SHARE_OF_CORES = 0.6, 0.8
# Seconds around the inferences: of a round here and on a board, of a cell on an emulated board, of a picture.
_HOST_ROUND, _BOARD_ROUND, _EMULATED_CELL, _PICTURE = 0.5, 6.0, 15.0, 0.02
_PROFILED = 8  # one inference under the profiler takes as long as this many without

_SAME, _ALIKE, _WORK = "an earlier result", "other cells of the target", "multiply-adds alone"
_RANGES = {_SAME: (0.8, 1.3), _ALIKE: (0.5, 2.0), _WORK: (0.25, 4.0)}  # times the estimate


@dataclass(frozen=True)
class Span:
    """Estimated seconds, with a lower and an upper limit."""

    seconds: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.seconds + other.seconds, self.low + other.low, self.high + other.high)

    def __truediv__(self, number: float) -> Span:
        return Span(self.seconds / number, self.low / number, self.high / number)


@dataclass(frozen=True, kw_only=True)
class Part:
    """The time of a target, or of the evaluation of accuracy on this machine."""

    name: str
    span: Span
    cells: int  # left to do, or evaluations
    done: int  # that have a result already
    boards: int
    basis: Mapping[str, int]  # number of cells by the source of the estimate


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The time of a sweep: its parts, some of which overlap, and the total."""

    parts: Sequence[Part]
    total: Span


def estimate(
    cells: Sequence[Cell], boards: Callable[[Target], Sequence[str]], folder: Path, *, fresh: bool
) -> Estimate:
    """The time of the cells without results in the folder, or with `fresh` of all. `boards` returns the names
    of a target's boards. Raises ConfigurationError if the results cannot be read."""
    earlier, evaluated = _earlier(folder)
    targets: dict[tuple[Target, bool], list[Cell]] = {}
    for cell in cells:
        targets.setdefault((cell.target, cell.emulated), []).append(cell)
    here, there, emulated = Span(), [Span()], [Span()]
    parts = []
    for (target, is_emulated), its_cells in targets.items():
        part = _of_target(its_cells, earlier, len(boards(target)), fresh=fresh)
        parts.append(part)
        if target.is_host:
            here = part.span
        else:
            (emulated if is_emulated else there).append(part.span)
    evaluation = _of_accuracy(cells, evaluated, fresh=fresh)
    if evaluation.cells or evaluation.done:
        parts.append(evaluation)
    # A measurement on this machine runs alone. Emulated boards and accuracies share the cores.
    shared = sum(emulated, evaluation.span) / (os.cpu_count() or 1)
    return Estimate(parts=parts, total=here + _longest([*there, *emulated, evaluation.span, shared]))


def _earlier(folder: Path) -> tuple[Mapping[CellSpec, float | None], set[tuple[str, str]]]:
    """The finished cells of the last run with their seconds, if known, and the models and policies with an
    accuracy."""
    if not (folder / FILE_NAME).is_file():
        return {}, set()
    found: dict[CellSpec, float | None] = {}
    evaluated: set[tuple[str, str]] = set()
    with stored_results(folder) as store:
        last = store.last_run()
        for planned in store.planned(last[0]) if last else ():
            spec, outcome = planned.spec, store.cell(planned.key)
            if outcome is not None and outcome.status == "done":
                result = outcome.result  # of older versions without wall_seconds
                found[spec] = None if result.time_series else result.wall_seconds
            if planned.accuracy_key and store.status("evaluations", planned.accuracy_key) == "done":
                evaluated.add((spec.model, spec.policy))
    return found, evaluated


def _of_target(
    cells: Sequence[Cell], earlier: Mapping[CellSpec, float | None], boards: int, *, fresh: bool
) -> Part:
    missing = [cell for cell in cells if fresh or cell.spec not in earlier]
    timings = Timings()
    for cell in cells:
        if (seconds := earlier.get(cell.spec)) is not None:
            timings += Timings.of(_cost(cell), seconds)
    basis: dict[str, int] = {}
    whole, longest = Span(), [Span()]
    for cell in missing:
        known = None if cell.protocol.sustained else earlier.get(cell.spec)
        alike = None if cell.protocol.sustained else timings.predict(1, _cost(cell))
        how = _SAME if known is not None else _ALIKE if alike is not None else _WORK
        seconds = next((value for value in (known, alike) if value is not None), _seconds(cell))
        low, high = (0.9, 1.5) if cell.protocol.sustained else _RANGES[how]
        span = Span(seconds, low * seconds, high * seconds)
        whole, basis[how] = whole + span, basis.get(how, 0) + 1
        longest.append(span)
    name = cells[0].target.name + (" (emulated)" if cells[0].emulated else "")
    return Part(
        name=name,
        span=_longest([whole / boards, *longest]),
        cells=len(missing),
        done=len(cells) - len(missing),
        boards=boards,
        basis=basis,
    )


def _of_accuracy(cells: Sequence[Cell], evaluated: set[tuple[str, str]], *, fresh: bool) -> Part:
    asked = {
        (cell.model.name, cell.policy, cell.options.bn_epsilon): cell.model
        for cell in cells
        if cell.model.dataset is not None
    }
    missing = [model for key, model in asked.items() if fresh or key[:2] not in evaluated]
    rate = _HOST_RATE * _SHARE_OF_CORES * (os.cpu_count() or 1)
    seconds = sum(_pictures(model) * (_multiply_adds(model) / rate + _PICTURE) for model in missing)
    low, high = _RANGES[_WORK]
    return Part(
        name="accuracy, on this machine",
        span=Span(seconds, low * seconds, high * seconds),
        cells=len(missing),
        done=len(asked) - len(missing),
        boards=1,
        basis={_WORK: len(missing)} if missing else {},
    )


def _seconds(cell: Cell) -> float:
    """The estimate from multiply-adds only."""
    protocol, macs = cell.protocol, _multiply_adds(cell.model)
    if cell.emulated:
        return _EMULATED_CELL + (protocol.warmup + protocol.runs + _PROFILED) * macs / _EMULATED_RATE
    inference = macs / _rate(cell)
    around = _HOST_ROUND if cell.target.is_host else _BOARD_ROUND
    measured = max(protocol.runs * inference, protocol.min_seconds)
    return measured + protocol.rounds * (around + protocol.warmup * inference)


def _rate(cell: Cell) -> float:
    """Multiply-adds per second of a cell's threads."""
    board = cell.target.board
    one, cores = _HOST_RATE, os.cpu_count() or 1
    if not cell.target.is_host:
        in_a_cycle = 8 if "dotprod" in cell.target.features else 4  # newer cores have two pipes for vectors
        one = (board.clock_hz if board else 1.5e9) * in_a_cycle * _SHARE_OF_PEAK
        cores = board.cores if board else 4
    threads = min(cell.threads, cores)
    return one * (threads * _SHARE_OF_CORES if threads > 1 else 1)


def _cost(cell: Cell) -> float:
    return _multiply_adds(cell.model) / cell.threads


@cache
def _multiply_adds(model: Model) -> int:
    return multiply_adds(model.network)


@cache
def _pictures(model: Model) -> int:
    from harness.accuracy.dataset import read_pictures

    assert model.dataset is not None
    number = len(read_pictures(model.dataset))
    return min(number, model.limit or number)


def _longest(spans: Iterable[Span]) -> Span:
    found = list(spans)
    return Span(
        max(span.seconds for span in found), max(span.low for span in found), max(span.high for span in found)
    )
