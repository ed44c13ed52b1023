"""The cells of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from harness.configuration.matrix import Sweep, variants
from harness.sweep.cell import Cell


def cells(sweep: Sweep, is_emulated: Callable[[str], bool]) -> tuple[Cell, ...]:
    """All cells in the order of the report: targets, models, toolchains, options, threads, and policies
    innermost."""
    found = variants(sweep)
    return tuple(
        Cell(
            variant=variant,
            target=target,
            runtime=runtime,
            threads=threads,
            build=build,
            options=options,
            protocol=sweep.emulated if is_emulated(target) else sweep.protocol,
            emulated=is_emulated(target),
        )
        for target, model, runtime, build, options, threads in product(
            sweep.targets, sweep.models, sweep.runtimes, sweep.toolchains, sweep.options, sweep.threads
        )
        for variant in found
        if variant.model is model
    )
