"""The cells of a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from harness.config.sweep import Step, Sweep, variants
from harness.config.targets import Target
from harness.errors import ConfigurationError
from harness.measure.cell import Cell
from harness.runtimes.base import find_runtime

MOST_TOGETHER, LEAST_TOGETHER = 8, 2  # cells that take turns

Keyed = tuple[str, Cell]


def cells(sweep: Sweep, is_emulated: Callable[[Target], bool]) -> tuple[Cell, ...]:
    """All cells in the order of the report: targets, models, toolchains, options, threads, and policies
    innermost. Steps replace options and threads. A quantisation of TensorFlow Lite has cells of the runtimes
    that execute its exports. Raises ConfigurationError if the sweep has no such runtime."""
    found = variants(sweep)
    lite = {name for name in sweep.runtimes if find_runtime(name).export == "tflite"}
    if not lite and (lost := next((variant for variant in found if variant.tflite), None)):
        raise ConfigurationError(
            f"{sweep.file}: policy {lost.policy} makes a TensorFlow Lite file, and no runtime of this sweep "
            f"runs it: {', '.join(sweep.runtimes)}",
            hint="Add litert to `runtimes`.",
        )
    steps = sweep.steps or tuple(
        Step(name="", options=options, threads=threads)
        for options, threads in product(sweep.options, sweep.threads)
    )
    return tuple(
        Cell(
            variant=variant,
            target=target,
            runtime=runtime,
            threads=step.threads,
            build=build,
            options=step.options,
            step=step,
            protocol=sweep.emulated if is_emulated(target) else sweep.protocol,
            emulated=is_emulated(target),
        )
        for target, model, runtime, build, step in product(
            sweep.targets, sweep.models, sweep.runtimes, sweep.toolchains, steps
        )
        for variant in found
        if variant.model is model and (runtime in lite or not variant.tflite)
    )


def interleave(pending: Mapping[str, Cell], boards: Mapping[str, int]) -> list[list[Keyed]]:
    """Groups the cells that take turns on a board: those that differ only in policy and runtime, and have
    several rounds. Drift of the board then affects all of them alike, which makes them comparable.

    A group has at most MOST_TOGETHER cells, so that a lost board costs the rounds of a few cells. If some of
    a target's boards would have nothing to do (`boards`: their number, by target), groups get smaller, down
    to LEAST_TOGETHER.
    """
    together: dict[object, list[Keyed]] = {}
    for key, cell in pending.items():
        where = (cell.target, cell.build, cell.threads, cell.options, cell.step)
        alike = (cell.model.name, where) if cell.protocol.rounds > 1 else key
        together.setdefault(alike, []).append((key, cell))
    of_target: dict[str, list[_Group]] = {}
    groups = [_Group(cells, math.ceil(len(cells) / MOST_TOGETHER)) for cells in together.values()]
    for group in groups:
        of_target.setdefault(group.cells[0][1].target.name, []).append(group)
    for target, its_groups in of_target.items():
        idle = boards.get(target, 1) - sum(group.parts for group in its_groups)
        while idle > 0 and (large := [group for group in its_groups if group.can_be_smaller]):
            max(large, key=lambda group: len(group.cells) / group.parts).parts += 1
            idle -= 1
    return [part for group in groups for part in group.split()]


@dataclass
class _Group:
    """Cells that take turns if `parts` is 1."""

    cells: Sequence[Keyed]
    parts: int

    @property
    def can_be_smaller(self) -> bool:
        return len(self.cells) // (self.parts + 1) >= LEAST_TOGETHER

    def split(self) -> Iterator[list[Keyed]]:
        """Parts of about the same size."""
        count = len(self.cells)
        for part in range(self.parts):
            yield list(self.cells[part * count // self.parts : (part + 1) * count // self.parts])
