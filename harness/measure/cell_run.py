"""Measures one cell on a board: speed, memory and digests; an emulated board's real speed is predicted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.boards.base import library_path
from harness.config.multiply_adds import layer_multiply_adds
from harness.errors import ConfigurationError, HarnessError
from harness.measure.board_fault import boards_fault
from harness.measure.cell import Cell
from harness.measure.result import CellOutcome, CellResult, CellWork
from harness.measure.rounds import measured_in_rounds, output, run_command
from harness.measure.statistics import percentile, timing
from harness.measure.time_series import time_series
from harness.measure.watched_run import conditions_of
from harness.prediction.engine_run import profile_execution, profiled_threads
from harness.prediction.predictor import PredictionError, find_predictor
from harness.qemu.profiler import profiling_missing
from harness.runtimes.base import Execution, Files, LayerResult, Workload, find_runtime

if TYPE_CHECKING:
    from harness.boards.base import Board
    from harness.config.targets import Target
    from harness.prediction.parts import LayerParts
    from harness.prediction.profile import Profiled


def measure(
    board: Board, cell: Cell, files: Files, expected: Sequence[str] = (), *, multiply_adds: int = 0
) -> CellWork:
    """Runs a cell's processes on a board. Yields between rounds, when other cells may use the board; returns
    the outcome.

    `expected` are the host's digests of the sample images. Raises HarnessError with the cause if a process
    fails or its output is implausible, and if an int8 network computes other bits than on the host. A
    failure of the board, for example to store the files, is a BoardFaultError.
    """
    execution = deployed(board, cell, files, multiply_adds)
    rounds = yield from measured_in_rounds(board, execution, cell.protocol)
    benches = [each.bench for each in rounds]
    samples = [sample for each in rounds for sample in each.samples]
    # From one round, so that the times of its layers add up.
    middle = sorted(rounds, key=lambda each: percentile(each.samples, 50))[(len(rounds) - 1) // 2]
    layers = middle.layers
    watched = [each.watched for each in rounds if each.watched]
    conditions = conditions_of(watched)
    last = benches[-1]
    file = find_runtime(cell.runtime).described(files)
    result = CellResult(
        **vars(timing(samples)),
        arena_bytes=last.arena_bytes,
        weight_bytes=last.weight_bytes,
        isa=last.isa,
        instructions=last.instructions,
        peak_rss_bytes=max(bench.peak_rss_bytes or 0 for bench in benches) or None,
        interpreter_rss_bytes=last.interpreter_rss_bytes,
        file_bytes=file.bytes if file else None,
        float_operators=file.float_operators if file else None,
        conversion_ms=sum(layer.conversion_ns for layer in layers) / 1e6,
        rounds=[len(each.samples) for each in rounds],
        warmup=cell.protocol.warmup,
        board=board.name,
        throttled=conditions.throttled if conditions else None,
        attempts=max((run.attempts for run in watched), default=None),
        conditions=conditions,
    )
    if cell.protocol.sustained and watched:
        points = time_series(samples, watched[-1].samples, watched[-1].before)
        result = replace(result, time_series=points)
    if cell.protocol.count_instructions and cell.threads == 1 and result.instructions is None:
        result = _counted(board, execution, result, cell.protocol.timeout)
    # The profile is evaluated while the board computes digests.
    with ThreadPoolExecutor(1) if board.emulated else nullcontext() as beside:
        predicting = None
        if beside:
            threads = profiled_threads(board.target, cell.threads)
            runs = profile_execution(board, execution, [threads], cell.protocol.timeout)
            profiled = runs[threads][0] if runs else None
            context = copy_context()
            predicting = beside.submit(context.run, _predicted, board.target, cell, profiled, result, layers)
        forward = execution.digests(len(expected) or None)
        digests = run_command(board, forward, cell.protocol.timeout) if forward else None
        if predicting:
            result, layers = predicting.result()
    if digests is not None:
        result = _compared(result, board, digests, expected, execution.is_bit_exact(layers))
    return CellOutcome(status="done", result=result, samples_ns=samples, layers=layers)


def deployed(board: Board, cell: Cell, files: Files, multiply_adds: int = 0) -> Execution:
    """Brings a cell's files to a board."""
    runtime = find_runtime(cell.runtime)
    wanted = runtime.deployed_files(files, board)
    with boards_fault(but=ConfigurationError):  # about a file on this machine
        paths = board.deploy(wanted)
    with boards_fault():
        environment = library_path(paths[library.name] for library in files.libraries)
    workload = Workload(
        network=cell.variant.cfg,
        threads=cell.threads,
        options=cell.options,
        multiply_adds=multiply_adds,
    )
    return runtime.execution(board, paths, environment, workload)


def _counted(board: Board, execution: Execution, result: CellResult, timeout: float) -> CellResult:
    """Adds the instructions of one inference under an emulator, which may lack the board's best instruction
    set; or the reason why they are unknown."""
    command = execution.marked_bench(profile=False)
    if board.instruction_counter is None or command is None:
        return result
    try:
        completed, instructions = board.instruction_counter.count_instructions(
            command.argv, timeout=timeout, environment=command.environment
        )
    except HarnessError as error:
        return replace(result, instructions_unavailable_reason=str(error))
    bench = command.read(output(completed, command), math.inf)
    return replace(result, instructions=instructions, instructions_isa=bench.isa or "unknown")


def _predicted(
    target: Target, cell: Cell, profiled: Profiled | None, result: CellResult, layers: Sequence[LayerResult]
) -> tuple[CellResult, Sequence[LayerResult]]:
    """Adds the times that a real board would take for the cell and for its layers, or the reason why they are
    unknown."""
    if profiled is None:
        reason = "; ".join(profiling_missing()) or f"{cell.runtime} cannot be profiled"
        return replace(result, prediction_unavailable_reason=reason), layers
    result = replace(result, instructions=profiled.alone.instructions)
    try:
        predictor = find_predictor(target)
        prediction = predictor.predict(profiled, cell.threads)
        parts = predictor.layer_parts(profiled, layers, cell.threads)
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
        prediction_divided=prediction.divided,
        prediction_coefficients_of=prediction.coefficients_of or None,
        bytes_moved=prediction.work.bytes_moved,
    )
    counts = layer_multiply_adds(cell.variant.cfg)
    return result, [
        _with_parts(layer, parts[layer.index], divided=counts[layer.index] > 0)
        if layer.index in parts
        else layer
        for layer in layers
    ]


def _with_parts(layer: LayerResult, parts: LayerParts, *, divided: bool) -> LayerResult:
    """Adds the predicted time and, if it is to be `divided`, its parts."""
    layer = replace(layer, predicted_ns=round(1e6 * parts.milliseconds))
    if not divided:
        return layer
    return replace(
        layer,
        predicted_compute_ns=round(1e6 * parts.compute),
        predicted_activation_ns=round(1e6 * parts.activation),
        predicted_conversion_ns=round(1e6 * parts.conversion),
        predicted_memory_ns=round(1e6 * parts.memory),
    )


def _compared(
    result: CellResult, board: Board, digests: Sequence[str], expected: Sequence[str], bit_exact: bool
) -> CellResult:
    """Adds the digests of the sample images. Raises HarnessError if `bit_exact` ones differ."""
    same = list(digests) == list(expected) if expected else None
    if bit_exact and same is False:
        image = next(
            index for index, pair in enumerate(zip(digests, expected, strict=False)) if pair[0] != pair[1]
        )
        raise HarnessError(
            f"{board.name} computes other bits than the host: digest {digests[image][:16]} of sample image "
            f"{image}, on the host {expected[image][:16]}",
            hint="int8 results must be the same on every processor: this is a bug in the engine.",
        )
    return replace(
        result,
        digest=hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        digests=digests,
        digest_matches_host=same,
        bit_exact=bit_exact,
    )
