"""The measured times of a sweep's cells and the work of each, to fit a board's coefficients.

The times come from a real board; the work is found by running the same cells on an emulated board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from harness.prediction.predictor import Predictor
    from harness.prediction.profile import Profiled
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
        for cell, milliseconds in measured:
            work = predictor.work(_profiled(board, inputs, cell), cell.threads)
            found.setdefault(cell.threads, []).append(
                Measurement(name=cell.name, work=work, milliseconds=milliseconds)
            )
            progress.advance()
    return found


def _measured(sweep: Sweep, store: Store, target: Target) -> list[tuple[Cell, float]]:
    """Cells with their medians."""
    last = store.last_run()
    keys = {planned.spec: planned.key for planned in (store.planned(last[0]) if last else [])}
    found = []
    for cell in cells(sweep, lambda _: False):
        if cell.options.tune:  # other algorithms than under emulation
            continue
        key = keys.get(cell.spec) if cell.target.name == target.name else None
        outcome = store.cell(key) if key and cell.runtime == "engine" else None
        if outcome is not None and outcome.status == "done" and outcome.result.p50_ms:
            found.append((cell, outcome.result.p50_ms))
    if not found:
        raise ConfigurationError(
            f"{store.folder}: the last run has no measurements of a real {target.name}",
            hint="Measure some networks and policies first: harness run --matrix … --boards FILE.",
        )
    return found


def _profiled(board: Board, inputs: SweepInputs, cell: Cell) -> Profiled:
    runtime = find_runtime(cell.runtime)
    files = Files(
        program=runtime.prepare(board.target, cell.build, [cell.options.algorithm]).path,
        cfg=inputs.cfg(cell.variant),
        weights=cell.model.weights,
        calibration=inputs.calibration(cell.variant),
        libraries=runtime.libraries(cell.target, cell.options),
    )
    threads = profiled_threads(cell.target, cell.threads)
    runs = profile_execution(board, deployed(board, cell, files), [threads], cell.protocol.timeout)
    if runs is None:
        from harness.qemu.profiler import profiling_missing

        raise HarnessError("; ".join(profiling_missing()))
    return runs[threads][0]
