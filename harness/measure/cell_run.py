"""Measures one cell on a board: speed, memory and digests; an emulated board's real speed is predicted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.boards.base import library_path
from harness.errors import ConfigurationError, HarnessError
from harness.measure.board_fault import boards_fault
from harness.measure.cell import Cell
from harness.measure.rounds import measured_in_rounds, output, run_engine
from harness.measure.statistics import percentile, timing
from harness.measure.time_series import course
from harness.measure.watched_run import facts
from harness.prediction.engine_run import profile_engine
from harness.prediction.predictor import PredictionError, find_predictor
from harness.qemu.profiler import profiling_missing
from harness.runtimes.engine import EngineOptions, bench_arguments, forward_arguments
from harness.runtimes.engine_output import Asked, read_bench, read_digests
from harness.store.store import LayerRow, Outcome
from harness.sweep.worker import Work

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


def measure(board: Board, cell: Cell, files: Files, expected: Sequence[str] = ()) -> Work:
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
    layers: Sequence[LayerRow] = middle.layers
    result: dict[str, Any] = {
        **vars(timing(samples)),
        **{key: getattr(benches[-1], key) for key in ("arena_bytes", "weight_bytes", "isa", "instructions")},
        "peak_rss_bytes": max(bench.peak_rss_bytes or 0 for bench in benches) or None,
        "conversion_ms": sum(layer.conversion_ns for layer in layers) / 1e6,
        "rounds": [len(each.samples) for each in rounds],
        "board": board.name,
        **facts([each.watched for each in rounds if each.watched]),
    }
    if cell.protocol.sustained and (watched := rounds[-1].watched):
        points = course(samples, watched.samples, watched.before)
        result["course"] = [asdict(point) for point in points]
    if cell.protocol.count_instructions and cell.threads == 1 and result["instructions"] is None:
        result |= _count(board, cell, paths, options, environment)
    # What was profiled is worked out here while the board computes digests.
    with ThreadPoolExecutor(1) if board.emulated else nullcontext() as beside:
        predicting = None
        if beside:
            profiled = profile_engine(
                board, paths, options, timeout=cell.protocol.timeout, environment=environment
            )
            predicting = beside.submit(copy_context().run, _predict, board.target, cell, profiled, layers)
        if "samples" in paths:
            result |= _compare(board, cell, paths, options, environment, expected, layers)
        if predicting:
            predicted, layers = predicting.result()
            result |= predicted
    return Outcome(status="done", result=result, samples_ns=samples, layers=layers)


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


def is_exact(layers: Sequence[LayerRow], cfg_text: str) -> bool:
    """Whether every layer with weights works in int8 with recorded ranges: such a network's outputs are the
    same bits on every processor, while float sums may be rounded differently."""
    from harness.config.policy import int8_use

    weighted = [row for row in layers if row.type in ("convolutional", "connected")]
    return all(row.executed == "int8" for row in weighted) and int8_use(cfg_text).all_static


def _count(
    board: Board,
    cell: Cell,
    paths: Mapping[str, str],
    options: EngineOptions,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Instructions of one inference under an emulator, which may lack the board's best instruction set; or
    why they are not counted."""
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
        counted = board.count_instructions(argv, timeout=cell.protocol.timeout, environment=environment)
    except HarnessError as error:
        return {"instructions_missing": str(error)}
    if counted is None:
        return {}
    completed, instructions = counted
    command = f"mpe bench under an emulator on {board.name}"
    asked = Asked(runs=1, threads=cell.threads, layers=None)
    bench = read_bench(output(completed, command), asked, command)
    return {"instructions": instructions, "instructions_isa": bench.isa}


def _predict(
    target: Target, cell: Cell, profiled: tuple[Profile, object] | None, layers: Sequence[LayerRow]
) -> tuple[dict[str, Any], Sequence[LayerRow]]:
    """What a real board would take for the cell and for its layers, or why that is not known."""
    if profiled is None:
        return {"prediction_missing": "; ".join(profiling_missing())}, layers
    profile, _ = profiled
    instructions = {"instructions": profile.instructions}
    try:
        prediction = find_predictor(target).predict(profile, cell.threads)
    except PredictionError as error:
        return instructions | {"prediction_missing": str(error)}, layers
    low, high = prediction.interval_ms
    result = instructions | {
        "predicted_ms": prediction.milliseconds,
        "predicted_low_ms": low,
        "predicted_high_ms": high,
        "prediction_error": prediction.error,
        "prediction_validated": prediction.validated,
        "prediction_coefficients_of": prediction.coefficients_of or None,
        "bytes_moved": prediction.work.bytes_moved,
    }
    times = prediction.layers
    return result, [
        replace(row, predicted_ns=round(1e6 * times[row.index])) if row.index in times else row
        for row in layers
    ]


def _compare(
    board: Board,
    cell: Cell,
    paths: Mapping[str, str],
    options: EngineOptions,
    environment: Mapping[str, str],
    expected: Sequence[str],
    layers: Sequence[LayerRow],
) -> dict[str, Any]:
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
    digests = read_digests(forward.printed, len(expected) or None, f"mpe forward on {board.name}")
    same = digests == list(expected) if expected else None
    exact = is_exact(layers, cell.variant.cfg_text)
    if exact and same is False:
        image = next(
            index for index, pair in enumerate(zip(digests, expected, strict=False)) if pair[0] != pair[1]
        )
        raise HarnessError(
            f"{board.name} computes other bits than the host: digest {digests[image][:16]} of sample image "
            f"{image}, on the host {expected[image][:16]}",
            hint="int8 results must be the same on every processor: this is a fault of the engine.",
        )
    return {
        "digest": hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        "digests": digests,
        "digest_matches_host": same,
        "exact": exact,
    }
