"""`harness sensitivity`: which layers lose what in int8 or fp16."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.model_options import (
    add_dataset,
    add_engine,
    add_model,
    dataset_of,
    engine_options,
    model_files,
    positive_number,
    with_policy,
)
from harness.commands.scheduler_option import add_scheduler, task_runner
from harness.config.preprocessing import RESIZES
from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.search.evaluator import Evaluator
    from harness.search.sensitivity import Sensitivity


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, policy_help=None)
    add_dataset(parser, what="pictures, with or without labels, as in eval", split="default: val")
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=("int8", "fp16"),
        default=["int8", "fp16"],
        metavar="P",
        help="measure the sensitivity to these precisions: int8, fp16 (default: both)",
    )
    parser.add_argument(
        "--limit",
        type=positive_number,
        default=32,
        metavar="N",
        help="use the first N pictures (default: 32)",
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        default=8,
        metavar="N",
        help="raise up to N layers one after another, starting with all in the lowest precision (default: 8)",
    )
    parser.add_argument(
        "--resize", choices=RESIZES, help="resize pictures by this method (default: as in eval)"
    )
    parser.add_argument(
        "--labels", type=Path, metavar="F", help="read WordNet ids in output order from this file"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="keep finished evaluations in this folder, from which a run resumes (default: the cache)",
    )
    add_scheduler(parser)
    parser.add_argument(
        "--format", choices=("table", "html"), help="output format (default: table); not with --json"
    )
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import console

    if arguments.json and arguments.format is not None:
        raise ConfigurationError(
            f"--json and --format {arguments.format} exclude each other", hint="Leave one of them out."
        )
    if arguments.calibration and "int8" not in arguments.precision:
        raise ConfigurationError("--calibration has no effect without int8", hint="Leave it out.")
    with model_files(arguments), with_policy(arguments, None, ranges=False) as cfg:
        document = _measure(arguments, cfg)
    if arguments.json:
        console.emit_json(document)
    elif arguments.format == "html":
        from harness.report.sensitivity_page import sensitivity_page

        print(sensitivity_page(document, (arguments.model or arguments.cfg).stem), end="")
    else:
        from harness.report.sensitivity import show

        show(document)
    return 0


def _measure(arguments: argparse.Namespace, cfg: Path) -> dict[str, Any]:
    from harness.accuracy.evaluate import check_dataset
    from harness.runtimes.engine import host_engine
    from harness.search.evaluation import default_folder
    from harness.search.evaluator import Evaluator
    from harness.search.ranges import recorded_ranges
    from harness.search.sensitivity import measure

    dataset = dataset_of(arguments)
    data = check_dataset(cfg, dataset, arguments.labels, agreement=True).first(arguments.limit)
    if arguments.labels and data.kind != "classes":
        raise ConfigurationError(
            f"--labels has no effect: {dataset} has no classes of pictures", hint="Leave it out."
        )
    engine, options = host_engine(arguments.algorithm), engine_options(arguments)
    folder = arguments.results or default_folder()
    calibration = arguments.calibration if "int8" in arguments.precision else None
    if "int8" in arguments.precision and calibration is None:
        calibration = recorded_ranges(
            engine,
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            evaluated=len(data.pictures),
            resize=arguments.resize,
            options=options,
            folder=folder,
        )
    with (
        task_runner(arguments.scheduler) as runner,
        Evaluator(
            engine,
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            calibration=calibration,
            labels=arguments.labels,
            resize=arguments.resize,
            limit=arguments.limit,
            options=options,
            folder=folder,
            runner=runner,
        ) as evaluator,
    ):
        common = _warn(evaluator, dataset)
        found = measure(evaluator, arguments.precision, arguments.steps)
        return _document(evaluator, found) | {"calibration_overlap": common}


def _warn(evaluator: Evaluator, dataset: Path) -> int | None:
    """Warns about pictures that distort the figures; the number of those also used for calibration."""
    from harness import console
    from harness.accuracy.overlap import overlap, overlap_sentence
    from harness.accuracy.truth import warning_of_unlabelled

    pictures = evaluator.data.pictures
    if warning := warning_of_unlabelled(dataset, evaluator.data.unlabelled, len(pictures)):
        console.warn(warning)
    if evaluator.calibration is None:
        return None
    common = overlap(evaluator.calibration, (picture.path for picture in pictures))
    if common:
        console.warn(overlap_sentence(common, len(pictures)))
    return common


def _document(evaluator: Evaluator, found: Sensitivity) -> dict[str, Any]:
    from harness import console
    from harness.search.data import layer_rows, path_rows, uniform_rows

    lowered = [precision for precision in found.uniform if precision != "fp32"]
    with console.progress("times of the layers", total=len(lowered)) as bar:
        times = {}
        for precision in lowered:
            times[precision] = evaluator.layer_ms(evaluator.uniform(precision))
            bar.advance()
    return {
        "images": len(evaluator.data.pictures),
        "resize": evaluator.rules.resize,
        "accuracy_metric": evaluator.metric,
        "calibration": str(evaluator.calibration) if evaluator.calibration else None,
        "executed": evaluator.executed,
        "low": found.low,
        "high": found.high,
        "uniform": uniform_rows(found),
        "layers": layer_rows(evaluator.network, found, times),
        "path": path_rows(evaluator.network, found),
    }


def _steps(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is negative")
    return number
