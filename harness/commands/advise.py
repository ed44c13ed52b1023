"""`harness advise`: which precision and runtime meet the user's limits, and what is not known."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.commands.limit_options import DROP, add_limits, memory_of
from harness.commands.model_options import (
    add_calibration,
    add_model,
    dataset_of,
    import_options,
    import_to_cache,
    model_files,
    positive_number,
)
from harness.commands.scheduler_option import add_scheduler, task_runner
from harness.config.preprocessing import RESIZES
from harness.config.runtimes import RUNTIMES
from harness.errors import CellsFailedError, CellsSkippedError, ConfigurationError, LimitsNotMetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.advice.choice import Advice
    from harness.advice.limits import Limits
    from harness.advice.sweep import Request
    from harness.config.sweep import Model
    from harness.config.sweep_models import Importer
    from harness.report.result import Report

_SWEEP = "sweep.yaml"
_OF_MEASURING = (
    *("model", "cfg", "weights", "dataset", "split", "results", "boards", "threads", "runtime"),
    *("limit", "resize", "labels", "calibration", "scheduler"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="RESULTS",
        help="choose among the results of a sweep, in place of measuring a model",
    )
    add_model(parser, required=False, policy_help=None)
    parser.add_argument(
        "--target", metavar="T", help="advise for this target; with RESULTS, one of the sweep's"
    )
    add_limits(parser, "limits", drop=DROP, agreement=True)
    measuring = parser.add_argument_group("measuring a model")
    measuring.add_argument(
        "--dataset",
        type=Path,
        metavar="D",
        help="pictures for accuracy and for int8's ranges, as for harness eval",
    )
    measuring.add_argument(
        "--split", choices=("train", "val", "test"), help="use this split of a data.yaml (default: val)"
    )
    measuring.add_argument("--limit", type=positive_number, metavar="N", help="use only the first N pictures")
    measuring.add_argument(
        "--resize", choices=RESIZES, help="resize pictures by this method (default: as in eval)"
    )
    measuring.add_argument(
        "--labels", type=Path, metavar="F", help="read WordNet ids in output order from this file"
    )
    add_calibration(measuring)
    measuring.add_argument(
        "--runtime",
        action="append",
        choices=tuple(RUNTIMES),
        metavar="R",
        help=f"try this runtime: {', '.join(RUNTIMES)}; can be repeated (default: all that take the model)",
    )
    measuring.add_argument(
        "--threads",
        action="append",
        type=positive_number,
        metavar="N",
        help="run with N threads; can be repeated (default: 1)",
    )
    measuring.add_argument(
        "--boards",
        type=Path,
        metavar="FILE",
        help="YAML file of boards to measure on; without a board of the target it is emulated",
    )
    measuring.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="folder of the results, from which a run also resumes (default: results/advise-MODEL-TARGET)",
    )
    add_scheduler(measuring)


def run(arguments: argparse.Namespace) -> int:
    from harness.advice.limits import Limits
    from harness.advice.results import read_results

    limits = Limits(
        max_drop=arguments.max_drop,
        min_agreement=arguments.min_agreement,
        min_fps=arguments.min_fps,
        max_memory=memory_of(arguments),
    )
    folder = arguments.folder
    if folder is None:
        folder = _measured(arguments)
    else:
        _refuse_options_of_measuring(arguments)
    report, models = read_results(folder)
    return _answer(report, models, limits, arguments)


def _refuse_options_of_measuring(arguments: argparse.Namespace) -> None:
    from harness.config.import_options import IMPORT_KEYS

    for name in (*_OF_MEASURING, *IMPORT_KEYS):
        if getattr(arguments, name) is not None:
            raise ConfigurationError(
                f"--{name.replace('_', '-')} has no effect with RESULTS, which were measured before",
                hint="Leave it out, or leave out RESULTS to measure a model.",
            )


def _measured(arguments: argparse.Namespace) -> Path:
    """Runs the sweep of the options, which is written beside its results, and returns their folder."""
    from harness.accuracy.evaluate import check_dataset
    from harness.advice.sweep import sweep_text
    from harness.config.darknet_cfg import read_cfg
    from harness.config.sweep_file import read_sweep
    from harness.config.targets import load_target
    from harness.files import write_atomically
    from harness.report.data import write_report
    from harness.report.read import read_report
    from harness.store.store import Store
    from harness.sweep.fleet import Fleet
    from harness.sweep.run import run_sweep

    if not ((arguments.model or (arguments.cfg and arguments.weights)) and arguments.target):
        raise ConfigurationError(
            "results, or a model and --target, are required",
            hint="Name the results folder of a sweep, or a network and a board: --model M --target pi4.",
        )
    if arguments.split and not arguments.dataset:
        raise ConfigurationError("--split has no effect without --dataset", hint="Leave it out.")
    target = load_target(arguments.target)
    importer = cache(import_to_cache)  # the sweep file names the same model
    request = _request(arguments, importer)
    if request.dataset:
        check_dataset(request.cfg, request.dataset, request.labels, agreement=True)
    text = sweep_text(request, read_cfg(request.cfg))
    folder: Path = arguments.results or Path("results") / f"advise-{request.name}-{target.name}"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _SWEEP, text.encode())
    sweep = read_sweep(folder / _SWEEP, importer)
    console.log(f"{folder / _SWEEP}: the sweep to run; `harness run --matrix` runs it again")
    with task_runner(arguments.scheduler) as runner:
        finished = run_sweep(sweep, folder, Fleet(arguments.boards), debug=arguments.debug, runner=runner)
    with Store(folder) as store:
        write_report(read_report(store, finished.run, sweep.name, details=True))
    return folder


def _request(arguments: argparse.Namespace, importer: Importer) -> Request:
    from harness.advice.sweep import Request

    source = arguments.model and arguments.model.absolute()
    if source and not (arguments.cfg or arguments.weights):
        files = importer(source, import_options(arguments))
        cfg, weights = files.cfg, files.weights
    else:
        with model_files(arguments):  # refuses options that exclude each other
            cfg, weights = arguments.cfg, arguments.weights
    return Request(
        cfg=cfg,
        weights=weights,
        source=source,
        import_options=import_options(arguments),
        target=arguments.target,
        dataset=dataset_of(arguments) if arguments.dataset else None,
        labels=arguments.labels,
        resize=arguments.resize,
        limit=arguments.limit,
        calibration=arguments.calibration,
        threads=tuple(dict.fromkeys(arguments.threads or [1])),
        runtimes=tuple(dict.fromkeys(arguments.runtime or ())),
    )


def _answer(report: Report, models: dict[str, Model], limits: Limits, arguments: argparse.Namespace) -> int:
    from harness.advice.choice import advise
    from harness.advice.document import document
    from harness.advice.proposals import proposals
    from harness.advice.results import groups
    from harness.advice.show import show
    from harness.advice.words import answer, unknowns

    advices: list[Advice] = []
    documents = []
    for rows in groups(report.rows, arguments.target):
        first = rows[0]
        advice = advise(rows, limits)
        said, unknown = answer(advice), unknowns(advice)
        proposed = proposals(advice, models.get(first.model), first.target)
        advices.append(advice)
        kind = " (emulated)" if first.emulated else ""
        about = {"model": first.model, "target": first.target, "emulated": first.emulated}
        documents.append(about | document(advice, said, unknown, proposed))
        if not arguments.json:
            show(f"{first.model} on {first.target}{kind}", advice, said, unknown, proposed)
    if arguments.json:
        console.emit_json(documents[0] if len(documents) == 1 else documents)
    _refuse(report, advices)
    return 0


def _refuse(report: Report, advices: Sequence[Advice]) -> None:
    """Raises the error that a missing answer is, after everything has been printed."""
    missing = [advice for advice in advices if advice.recommended is None]
    if not missing:
        return
    if any(advice.rows for advice in missing):
        raise LimitsNotMetError(
            "no result meets the limits",
            hint="The rows that come nearest are shown. Change the limits, or see what else can be tried.",
        )
    rows = [row for advice in missing for row in advice.without_result]
    causes = "\n  ".join(sorted({row.error for row in rows if row.error}))
    kind = CellsFailedError if any(row.status == "failed" for row in rows) else CellsSkippedError
    raise kind(
        f"no cell has a result:\n  {causes}",
        hint=f"Remove the causes and run the sweep again: its results are in {report.folder}.",
    )
