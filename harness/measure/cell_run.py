"""Measures one cell on a board: speed, memory and digests; an emulated board's real speed is predicted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.boards.base import library_path
from harness.errors import ConfigurationError, HarnessError
from harness.measure.board_fault import boards_fault
from harness.measure.cell import Cell
from harness.measure.result import CellOutcome, CellResult, CellWork
from harness.measure.rounds import measured_in_rounds, output, run_engine
from harness.measure.statistics import percentile, timing
from harness.measure.time_series import time_series
from harness.measure.watched_run import conditions_of
from harness.prediction.engine_run import profile_engine
from harness.prediction.predictor import PredictionError, find_predictor
from harness.qemu.profiler import profiling_missing
from harness.runtimes.engine import EngineOptions, bench_arguments, forward_arguments
from harness.runtimes.engine_output import Asked, LayerResult, read_bench, read_digests

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target
    from harness.prediction.profile import Profile


@dataclass(frozen=True, kw_only=True)
class Files:
    """What goes to the board for a cell."""

    engine: Path
    cfg: Path
    weights: Path
    calibration: Path | None = None
    samples: Path | None = None  # images as .npy, for the digests
    libraries: Sequence[Path] = ()  # that the engine loads
    multiply_adds: int = 0  # of one inference; 0: not known


def measure(board: Board, cell: Cell, files: Files, expected: Sequence[str] = ()) -> CellWork:
    """Runs a cell's processes on a board, each a fresh one; yields between rounds, when other cells may have
    the board, and returns the outcome.

    `expected` are the host's digests of the sample images. Raises HarnessError with the cause where a process
    fails or says what it must not, and where an int8 network computes other bits than on the host; what the
    board does not do, as to store the files, is a BoardFaultError.
    """
    named = {key: path for key, path in vars(files).items() if isinstance(path, Path)}
    with boards_fault(but=ConfigurationError):  # which is of a file here
        paths = board.deploy(named | {library.name: library for library in files.libraries})
    with boards_fault():
        environment = library_path(paths[library.name] for library in files.libraries)
    options = engine_options(cell, paths.get("calibration"))
    if cell.options.tune:
        if board.emulated:
            raise HarnessError(
                "tune: an emulated core's times say nothing of the board's",
                hint="Leave it out for emulated targets: a model of costs chooses then.",
            )
        # Beside the engine: another build of it has other kernels.
        options = replace(options, tune=f"{paths['engine']}.tuning.json")
    rounds = yield from measured_in_rounds(board, cell, paths, options, environment, files.multiply_adds)
    benches = [each.bench for each in rounds]
    samples = [sample for each in rounds for sample in each.samples]
    # Those of one whole run: layers add up to its time.
    middle = sorted(rounds, key=lambda each: percentile(each.samples, 50))[(len(rounds) - 1) // 2]
    layers = middle.layers
    watched = [each.watched for each in rounds if each.watched]
    conditions = conditions_of(watched)
    last = benches[-1]
    result = CellResult(
        **vars(timing(samples)),
        arena_bytes=last.arena_bytes,
        weight_bytes=last.weight_bytes,
        isa=last.isa,
        instructions=last.instructions,
        peak_rss_bytes=max(bench.peak_rss_bytes or 0 for bench in benches) or None,
        conversion_ms=sum(layer.conversion_ns for layer in layers) / 1e6,
        rounds=[len(each.samples) for each in rounds],
        board=board.name,
        throttled=conditions.throttled if conditions else None,
        attempts=max((run.attempts for run in watched), default=None),
        conditions=conditions,
    )
    if cell.protocol.sustained and watched:
        points = time_series(samples, watched[-1].samples, watched[-1].before)
        result = replace(result, time_series=points)
    if cell.protocol.count_instructions and cell.threads == 1 and result.instructions is None:
        result = _counted(board, cell, paths, options, environment, result)
    # What was profiled is worked out here while the board computes digests.
    with ThreadPoolExecutor(1) if board.emulated else nullcontext() as beside:
        predicting = None
        if beside:
            profiled = profile_engine(
                board, paths, options, timeout=cell.protocol.timeout, environment=environment
            )
            predicting = beside.submit(
                copy_context().run, _predicted, board.target, cell, profiled, result, layers
            )
        digests = _digests(board, cell, paths, options, environment, expected) if "samples" in paths else None
        if predicting:
            result, layers = predicting.result()
    if digests is not None:
        result = _compared(result, board, digests, expected, is_exact(layers, cell.variant.cfg_text))
    return CellOutcome(status="done", result=result, samples_ns=samples, layers=layers)


def engine_options(cell: Cell, calibration: str | None) -> EngineOptions:
    """What the engine is told, with the path of the calibration file on the board."""
    return EngineOptions(
        threads=cell.threads,
        isa=cell.options.isa,
        algorithm=cell.options.algorithm,
        prefer=cell.options.prefer,
        cores=cell.options.cores,
        quantizer=cell.options.quantizer,
        bn_epsilon=cell.options.bn_epsilon,
        calibration=calibration,
    )


def is_exact(layers: Sequence[LayerResult], cfg_text: str) -> bool:
    """Whether every layer with weights works in int8 with recorded ranges: such a network's outputs are the
    same bits on every processor, while float sums may be rounded differently."""
    from harness.config.policy import int8_use

    weighted = [row for row in layers if row.type in ("convolutional", "connected")]
    return all(row.executed == "int8" for row in weighted) and int8_use(cfg_text).all_static


def _counted(
    board: Board,
    cell: Cell,
    paths: Mapping[str, str],
    options: EngineOptions,
    environment: Mapping[str, str],
    result: CellResult,
) -> CellResult:
    """Adds the instructions of one inference under an emulator, which may lack the board's best instruction
    set; or the reason why they are unknown."""
    if board.instruction_counter is None:
        return result
    argv = bench_arguments(
        paths["engine"],
        cfg=paths["cfg"],
        weights=paths["weights"],
        options=options,
        warmup=0,
        runs=1,
        mark=True,
    )
    try:
        completed, instructions = board.instruction_counter.count_instructions(
            argv, timeout=cell.protocol.timeout, environment=environment
        )
    except HarnessError as error:
        return replace(result, instructions_unavailable_reason=str(error))
    command = f"mpe bench under an emulator on {board.name}"
    asked = Asked(runs=1, threads=cell.threads, layers=None)
    bench = read_bench(output(completed, command), asked, command)
    return replace(result, instructions=instructions, instructions_isa=bench.isa)


def _predicted(
    target: Target,
    cell: Cell,
    profiled: tuple[Profile, object] | None,
    result: CellResult,
    layers: Sequence[LayerResult],
) -> tuple[CellResult, Sequence[LayerResult]]:
    """Adds the times that a real board would take for the cell and for its layers, or the reason why they are
    unknown."""
    if profiled is None:
        return replace(result, prediction_unavailable_reason="; ".join(profiling_missing())), layers
    profile, _ = profiled
    result = replace(result, instructions=profile.instructions)
    try:
        prediction = find_predictor(target).predict(profile, cell.threads)
    except PredictionError as error:
        return replace(result, prediction_unavailable_reason=str(error)), layers
    low, high = prediction.interval_ms
    result = replace(
        result,
        predicted_ms=prediction.milliseconds,
        predicted_low_ms=low,
        predicted_high_ms=high,
        prediction_error=prediction.error,
        prediction_validated=prediction.validated,
        prediction_coefficients_of=prediction.coefficients_of or None,
        bytes_moved=prediction.work.bytes_moved,
    )
    times = prediction.layers
    return result, [
        replace(row, predicted_ns=round(1e6 * times[row.index])) if row.index in times else row
        for row in layers
    ]


def _digests(
    board: Board,
    cell: Cell,
    paths: Mapping[str, str],
    options: EngineOptions,
    environment: Mapping[str, str],
    expected: Sequence[str],
) -> Sequence[str]:
    forward = run_engine(
        board,
        forward_arguments(
            paths["engine"],
            cfg=paths["cfg"],
            weights=paths["weights"],
            input=paths["samples"],
            options=options,
            digest=True,
        ),
        cell.protocol.timeout,
        environment,
    )
    return read_digests(forward.printed, len(expected) or None, f"mpe forward on {board.name}")


def _compared(
    result: CellResult, board: Board, digests: Sequence[str], expected: Sequence[str], exact: bool
) -> CellResult:
    """Adds the digests of the sample images. Raises HarnessError where `exact` ones differ."""
    same = list(digests) == list(expected) if expected else None
    if exact and same is False:
        image = next(
            index for index, pair in enumerate(zip(digests, expected, strict=False)) if pair[0] != pair[1]
        )
        raise HarnessError(
            f"{board.name} computes other bits than the host: digest {digests[image][:16]} of sample image "
            f"{image}, on the host {expected[image][:16]}",
            hint="int8 results must be the same on every processor: this is a fault of the engine.",
        )
    return replace(
        result,
        digest=hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        digests=digests,
        digest_matches_host=same,
        bit_exact=exact,
    )
