"""`harness predict`: a board's milliseconds, from an emulated run, and their error."""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.model_options import (
    add_model,
    import_to_cache,
    model_files,
    positive_number,
    with_policy,
)
from harness.errors import ConfigurationError
from harness.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.config.targets import Target
    from harness.prediction.engine_run import Inference, ProfiledRun
    from harness.prediction.predictor import Predictor

_OPTIONS_OF_A_PREDICTION = (
    "model",
    "input_shape",
    "cfg",
    "weights",
    "policy",
    "threads",
    "layers",
    "calibration",
    "isa",
    "algorithm",
    "prefer",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="predict for this target: name, alias or your own file (.yaml); can be repeated",
    )
    # Times do not depend on how pictures are prepared and outputs are read.
    add_model(parser, required=False, import_keys=("input_shape",))
    parser.add_argument(
        "--threads",
        action="append",
        type=positive_number,
        metavar="N",
        help="predict for N threads; can be repeated (default: 1)",
    )
    parser.add_argument("--layers", action="store_true", help="also show a row for each layer")
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--calibration", type=Path, metavar="F", help="read int8 ranges from this file (harness calibrate)"
    )
    engine.add_argument(
        "--isa", metavar="NAME", help="use this instruction set (default: the best of the board)"
    )
    engine.add_argument(
        "--algorithm",
        metavar="NAME",
        help="use this algorithm for convolutions (default: automatic, per layer)",
    )
    engine.add_argument(
        "--prefer", choices=("speed", "memory"), help="prefer fast or small algorithms (default: speed)"
    )
    fitting = parser.add_argument_group("fitting (instead of a prediction)")
    fitting.add_argument(
        "--calibrate",
        type=Path,
        metavar="SWEEP.yaml",
        help="fit a target's coefficients to a sweep measured on its board",
    )
    fitting.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="read that sweep's results from this folder (default: results/NAME)",
    )


def run(arguments: argparse.Namespace) -> int:
    from harness.config.targets import load_target

    _refuse_options_without_effect(arguments)
    if arguments.calibrate:
        return _calibrate(arguments)
    if not ((arguments.model or (arguments.cfg and arguments.weights)) and arguments.target):
        raise ConfigurationError(
            "a model and --target are required",
            hint="Name a network and a board: --model M --target pi4, or --cfg C --weights W --target pi4.",
        )
    from harness import console
    from harness.config.darknet_cfg import read_cfg
    from harness.config.multiply_adds import layer_multiply_adds
    from harness.prediction.engine_run import profile_emulated
    from harness.prediction.llvm import find_llvm
    from harness.prediction.predictor import find_predictor
    from harness.report.result import VERSION

    targets = [load_target(name) for name in arguments.target]
    predictors = {target.name: find_predictor(target) for target in targets}
    given = arguments.calibration is not None
    with model_files(arguments), contextlib.ExitStack() as files:
        multiply_adds = layer_multiply_adds(read_cfg(arguments.cfg))
        networks = []
        for policy in _policies(arguments):
            cfg = files.enter_context(with_policy(arguments, policy, ranges=False))
            ranges = files.enter_context(_ranges(arguments.calibration, cfg, given=given))
            networks.append((policy, cfg, ranges))
        numbers = list(dict.fromkeys(arguments.threads or [1]))
        asked = [(target, *network) for target in targets for network in networks]
        profiles = profile_emulated([_inference(*each, numbers, arguments) for each in asked])
    rows = [
        {
            "policy": policy or "as-is",
            **_row(target, number, predictors[target.name], runs, multiply_adds),
        }
        for (target, policy, *_), runs in zip(asked, profiles, strict=True)
        for number in numbers
    ]
    if arguments.json:
        console.emit_json({"schema_version": VERSION, "predictions": rows, "llvm": str(find_llvm())})
    else:
        _print(rows, layers=arguments.layers)
    return 0


def _refuse_options_without_effect(arguments: argparse.Namespace) -> None:
    without = () if arguments.calibrate else ("results",)
    beside = _OPTIONS_OF_A_PREDICTION if arguments.calibrate else ()
    for names, where in ((without, "without --calibrate"), (beside, "with --calibrate")):
        for name in names:
            if getattr(arguments, name):
                raise ConfigurationError(
                    f"--{name.replace('_', '-')} has no effect {where}", hint="Leave it out."
                )


def _calibrate(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.commands.run import default_folder
    from harness.config.sweep_file import read_sweep
    from harness.config.targets import load_target
    from harness.prediction.fit import fit, fit_memory
    from harness.prediction.predictor import find_predictor
    from harness.store.store import FILE_NAME, Store
    from harness.sweep.measured_work import measured_work

    if len(arguments.target) != 1:
        raise ConfigurationError(
            "--calibrate needs exactly one target", hint="Name the board's target with --target."
        )
    target = load_target(arguments.target[0])
    predictor = find_predictor(target, fitted=False)
    sweep = read_sweep(arguments.calibrate, import_to_cache)
    folder = arguments.results or default_folder(sweep)
    if not (folder / FILE_NAME).is_file():
        raise ConfigurationError(
            f"{folder}: no results ({FILE_NAME}) found", hint="Name the folder with --results."
        )
    with Store(folder) as store:
        measured = measured_work(sweep, store, target, predictor)
    cores = predictor.board.cores
    fits = {}
    one = predictor.board.coefficients
    if times := measured.get(1):
        fits["coefficients"] = fit(times, predictor.board, 1, f"{len(times)} cells of {sweep.name}")
        one = fits["coefficients"].coefficients
    if one and (times := measured.get(cores)):
        fits["coefficients_all_cores"] = fit_memory(
            times, predictor.board, cores, one.compute, f"{len(times)} cells of {sweep.name}"
        )
    if not fits:
        raise ConfigurationError(
            f"{folder}: has no cells with 1 or {cores} threads", hint=f"Measure with threads: [1, {cores}]."
        )
    if arguments.json:
        rows = {key: asdict(found) for key, found in fits.items()}
        for row in rows.values():
            del row["coefficients"]["like"]  # fitted coefficients are never borrowed
        console.emit_json(rows)
        return 0
    print(f"# For the key board: of the file of {printable(target.name)}.")
    for key, found in fits.items():
        values = found.coefficients
        print(f"  {key}:\n    compute: {values.compute:.3f}\n    memory: {values.memory:.3f}")
        print(f"    fitted_on: {json.dumps(values.fitted_on)}")
        print(f"    median_error: {values.median_error:.3f}\n    error_p90: {values.error_p90:.3f}")
    return 0


def _policies(arguments: argparse.Namespace) -> list[str | None]:
    """The policy of the command line; all precisions of an imported model that asks for none itself."""
    from harness.config.darknet_cfg import read_cfg

    if arguments.policy or not arguments.model:
        return [arguments.policy]
    network = read_cfg(arguments.cfg)
    return (
        ["fp32", "fp16", "int8"] if all(layer.precision == "fp32" for layer in network.weighted) else [None]
    )


@contextlib.contextmanager
def _ranges(calibration: Path | None, cfg: Path, *, given: bool) -> Iterator[Path | None]:
    """The calibration that was `given`. Else an imported model's own, or none, with made-up ranges for the
    tensors that it leaves out: the time of int8 does not depend on them.
    """
    from harness.config.darknet_cfg import read_cfg
    from harness.temporary import temporary_folder

    network = read_cfg(cfg)
    if given or not any(layer.needs_range for layer in network.weighted):
        yield calibration
        return
    document: dict[str, Any] = {"format": "mpe-calibration", "version": 1, "tensors": []}
    if calibration:
        document = json.loads(calibration.read_text(encoding="utf-8"))
    known = {entry["layer"] for entry in document["tensors"]}
    missing = (layer for layer in range(-1, len(network.layers)) if layer not in known)
    document["tensors"] += [{"layer": layer, "min": -4.0, "max": 4.0} for layer in missing]
    with temporary_folder("ranges") as folder:
        completed = folder / "ranges.json"
        completed.write_text(json.dumps(document), encoding="utf-8")
        yield completed


def _inference(
    target: Target,
    policy: str | None,
    cfg: Path,
    calibration: Path | None,
    threads: Sequence[int],
    arguments: argparse.Namespace,
) -> Inference:
    from harness.prediction.engine_run import Inference, profiled_threads
    from harness.runtimes.engine import EngineOptions

    files = {"cfg": cfg, "weights": arguments.weights}
    if calibration:
        files["calibration"] = calibration
    return Inference(
        name=f"{policy} on {target.name}" if policy else target.name,
        target=target,
        files=files,
        options=EngineOptions(isa=arguments.isa, algorithm=arguments.algorithm, prefer=arguments.prefer),
        threads=[profiled_threads(target, number) for number in threads],
    )


def _row(
    target: Target,
    threads: int,
    predictor: Predictor,
    runs: Mapping[int, ProfiledRun],
    multiply_adds: Sequence[int],
) -> dict[str, Any]:
    from harness.prediction.engine_run import descriptions, profiled_threads
    from harness.prediction.layer_figures import layer_figures

    profiled, bench = runs[profiled_threads(target, threads)]
    layers = descriptions(bench, multiply_adds)
    prediction = predictor.predict(profiled, threads)
    low, high = prediction.interval_ms
    return {
        "target": target.name,
        "threads": threads,
        "predicted_ms": prediction.milliseconds,
        "predicted_low_ms": low,
        "predicted_high_ms": high,
        "predicted_fps": 1e3 / prediction.milliseconds,
        "compute_ms": prediction.compute_ms,
        "memory_ms": prediction.memory_ms,
        "instructions": profiled.alone.instructions,
        "bytes_moved": prediction.work.bytes_moved,
        "prediction_error": prediction.error,
        "prediction_validated": prediction.validated,
        "prediction_coefficients_of": prediction.coefficients_of or None,
        "layers": [
            asdict(layer)
            for layer in layer_figures(
                layers,
                predictor.layer_parts(profiled, layers, threads),
                predictor.peaks(target.features, threads),
            )
        ],
    }


def _print(rows: Sequence[Mapping[str, Any]], *, layers: bool) -> None:
    from rich import box
    from rich.table import Table

    from harness import console
    from harness.prediction.layer_figures import LayerFigures
    from harness.report.notes import borrowed_note
    from harness.report.predicted_layers import predicted_layers
    from harness.report.tables import figure
    from harness.report.terminal import print_table

    several = len({row["policy"] for row in rows}) > 1
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("target", *(["policy"] if several else [])):
        table.add_column(heading)
    for heading in ("threads", "predicted FPS", "predicted ms", "interval ms", "memory ms"):
        table.add_column(heading, justify="right")
    table.add_column("M instructions", justify="right")
    table.add_column("MB moved", justify="right")
    table.add_column("error", justify="right")
    for row in rows:
        mark = "" if row["prediction_validated"] else " unvalidated"
        table.add_row(
            *(row["target"], *([row["policy"]] if several else []), str(row["threads"])),
            *(figure(row["predicted_fps"]), figure(row["predicted_ms"])),
            f"{figure(row['predicted_low_ms'])} to {figure(row['predicted_high_ms'])}",
            *(figure(row["memory_ms"]), figure(row["instructions"], 1e6), figure(row["bytes_moved"], 1e6)),
            f"{100 * row['prediction_error']:.0f} %{mark}",
        )
    output = console.stdout()
    output.print(table)
    output.print(
        "Predicted from an emulated run, not measured on a board. The interval holds 90 % of measured times.",
        soft_wrap=True,
    )
    for target, lender in {row["target"]: row["prediction_coefficients_of"] for row in rows}.items():
        if lender:
            output.print(console.text(borrowed_note(lender, target)), soft_wrap=True)
    for row in rows if layers else ():
        figures = [LayerFigures(**layer) for layer in row["layers"]]
        print_table(output, predicted_layers(_heading(row, with_policy=several), figures), "--json")


def _heading(row: Mapping[str, Any], *, with_policy: bool) -> str:
    threads = f"{row['threads']} thread{'s'[: row['threads'] > 1]}"
    return ", ".join([row["target"], *([row["policy"]] if with_policy else []), threads]) + ", predicted"
