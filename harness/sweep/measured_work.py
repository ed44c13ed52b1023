"""What a board took for the cells of a sweep, and the work behind each: what its coefficients are fitted on.

The times are those that a real board was measured with; the work is found by running the same cells on an
emulated board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness import console
from harness.boards.base import library_path
from harness.boards.emulated import EmulatedBoard
from harness.build.engine import build_engine
from harness.config.targets import load_target
from harness.errors import ConfigurationError, HarnessError
from harness.file_digest import file_digest
from harness.measure.cell_run import engine_options
from harness.prediction.engine_run import profile_engine
from harness.prediction.fit import Measurement
from harness.sweep.inputs import SweepInputs
from harness.sweep.plan import cells
from harness.sweep.preparation import Engine

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.sweep import Sweep
    from harness.config.targets import Target
    from harness.measure.cell import Cell
    from harness.measure.spec import CellSpec
    from harness.prediction.predictor import Predictor
    from harness.prediction.profile import Profile
    from harness.store.store import Store


def measured_work(
    sweep: Sweep, store: Store, target: Target, predictor: Predictor
) -> Mapping[int, Sequence[Measurement]]:
    """By number of threads. Raises ConfigurationError where the last run measured nothing on such a board."""
    measured = _measured(sweep, store, target)
    host = build_engine(load_target("host")).engine
    inputs = SweepInputs(sweep, store, Engine(path=host, sha256=file_digest(host)))
    found: dict[int, list[Measurement]] = {}
    with (
        EmulatedBoard(target) as board,
        console.progress(f"profiling what {target.name} was measured with", len(measured)) as progress,
    ):
        for same in measured:
            work = predictor.work(_profile(board, inputs, same[0][0]))
            for cell, milliseconds in same:
                found.setdefault(cell.threads, []).append(
                    Measurement(name=cell.name, work=work, milliseconds=milliseconds)
                )
            progress.advance()
    return found


def _measured(sweep: Sweep, store: Store, target: Target) -> list[list[tuple[Cell, float]]]:
    """Cells with their medians; those that differ in threads alone, and so do the same work, together."""
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
            f"{store.folder}: its last run measured nothing on a real {target.name}",
            hint="Measure some networks and policies first: harness run --matrix … --boards FILE.",
        )
    return list(groups.values())


def _profile(board: Board, inputs: SweepInputs, cell: Cell) -> Profile:
    build = build_engine(board.target, toolchain=cell.build.toolchain, flags=cell.build.flags)
    files = {"engine": build.engine, "cfg": inputs.cfg(cell.variant), "weights": cell.model.weights}
    if calibration := inputs.calibration(cell.variant):
        files["calibration"] = calibration
    libraries = inputs.libraries(cell)
    paths = board.deploy(files | {library.name: library for library in libraries})
    profiled = profile_engine(
        board,
        paths,
        engine_options(cell, paths.get("calibration")),
        timeout=cell.protocol.timeout,
        environment=library_path(paths[library.name] for library in libraries),
    )
    if profiled is None:
        from harness.qemu.profiler import profiling_missing

        raise HarnessError("; ".join(profiling_missing()))
    return profiled[0]
