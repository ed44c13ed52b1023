"""The cells of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from harness.configuration.matrix import Step, Sweep, variants
from harness.sweep.cell import Cell


def cells(sweep: Sweep, is_emulated: Callable[[str], bool]) -> tuple[Cell, ...]:
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
