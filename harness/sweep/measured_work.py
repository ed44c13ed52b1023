"""The measured times of a sweep's cells and the work of each, to fit a board's coefficients.

The times come from a real board; the work is found by running the same cells on an emulated board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness import console
from harness.boards.inventory import open_board
from harness.config.sweep import Build
from harness.config.targets import load_target
from harness.errors import ConfigurationError, HarnessError
from harness.measure.cell_run import deployed
from harness.prediction.engine_run import profile_execution, profiled_threads
from harness.prediction.fit import Measurement
from harness.runtimes.base import Files, find_runtime
from harness.sweep.inputs import SweepInputs
from harness.sweep.plan import cells

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.sweep import Sweep
    from harness.config.targets import Target
    from harness.measure.cell import Cell
    from harness.measure.spec import CellSpec
    from harness.prediction.engine_run import ProfiledRun
    from harness.prediction.predictor import Predictor
    from harness.store.store import Store


def measured_work(
    sweep: Sweep, store: Store, target: Target, predictor: Predictor
) -> Mapping[int, Sequence[Measurement]]:
    """Measured work by number of threads. Raises ConfigurationError if the last run measured nothing on a
    real board of the target."""
    measured = _measured(sweep, store, target)
    host = find_runtime("engine").prepare(load_target("host"), Build())
    inputs = SweepInputs(sweep, store, host)
    found: dict[int, list[Measurement]] = {}
    with (
        open_board(target) as board,
        console.progress(f"profiling the measured cells of {target.name}", len(measured)) as progress,
    ):
        for same in measured:
            runs = _profiled(board, inputs, [cell for cell, _ in same])
            for cell, milliseconds in same:
                profiled, _ = runs[profiled_threads(target, cell.threads)]
                work = predictor.work(profiled, cell.threads)
                found.setdefault(cell.threads, []).append(
                    Measurement(name=cell.name, work=work, milliseconds=milliseconds)
                )
            progress.advance()
    return found


def _measured(sweep: Sweep, store: Store, target: Target) -> list[list[tuple[Cell, float]]]:
    """Cells with their medians, in groups that differ only in threads."""
    last = store.last_run()
    keys = {planned.spec: planned.key for planned in (store.planned(last[0]) if last else [])}
    groups: dict[CellSpec, list[tuple[Cell, float]]] = {}
    for cell in cells(sweep, lambda _: False):
        if cell.options.tune:  # other algorithms than under emulation
            continue
        key = keys.get(cell.spec) if cell.target.name == target.name else None
        outcome = store.cell(key) if key and cell.runtime == "engine" else None
        if outcome is not None and outcome.status == "done" and outcome.result.p50_ms:
            same = replace(cell.spec, threads=0)
            groups.setdefault(same, []).append((cell, outcome.result.p50_ms))
    if not groups:
        raise ConfigurationError(
            f"{store.folder}: the last run has no measurements of a real {target.name}",
            hint="Measure some networks and policies first: harness run --matrix … --boards FILE.",
        )
    return list(groups.values())


def _profiled(board: Board, inputs: SweepInputs, group: Sequence[Cell]) -> Mapping[int, ProfiledRun]:
    """The profiles of cells that differ only in threads, by the threads that the board executes at once."""
    cell = group[0]
    runtime = find_runtime(cell.runtime)
    files = Files(
        program=runtime.prepare(board.target, cell.build, [cell.options.algorithm]).path,
        cfg=inputs.cfg(cell.variant),
        weights=cell.model.weights,
        calibration=inputs.calibration(cell.variant),
        libraries=runtime.libraries(cell.target, cell.options),
    )
    threads = [profiled_threads(board.target, each.threads) for each in group]
    runs = profile_execution(board, deployed(board, cell, files), threads, cell.protocol.timeout)
    if runs is None:
        from harness.qemu.profiler import profiling_missing

        raise HarnessError("; ".join(profiling_missing()))
    return runs
