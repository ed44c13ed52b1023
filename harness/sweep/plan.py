"""The cells of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from harness.configuration.matrix import Step, Sweep, variants
from harness.configuration.targets import Target
from harness.sweep.cell import Cell


def cells(sweep: Sweep, is_emulated: Callable[[Target], bool]) -> tuple[Cell, ...]:
    """All cells in the order of the report: targets, models, toolchains, options, threads, and policies
    innermost. Where there are steps, they stand for options and threads."""
    found = variants(sweep)
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
        if variant.model is model
    )


def in_turns(pending: Mapping[str, Cell]) -> list[list[tuple[str, Cell]]]:
    """Cells with their keys, those together that take turns: they differ in their policy alone, and have
    several rounds. What their board drifts meanwhile hits them alike, and they are what is compared."""
    together: dict[object, list[tuple[str, Cell]]] = {}
    for key, cell in pending.items():
        where = (cell.target, cell.runtime, cell.build, cell.threads, cell.options, cell.step)
        alike = (cell.model.name, where) if cell.protocol.rounds > 1 else key
        together.setdefault(alike, []).append((key, cell))
    return list(together.values())
