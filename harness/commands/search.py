"""`harness search`: the fastest precisions for a model on a board that lose no more than allowed."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.limit_options import DROP, add_limits, memory_of
from harness.commands.model_options import (
    add_calibration,
    add_dataset,
    add_model,
    dataset_of,
    model_files,
    positive_number,
    with_policy,
)
from harness.commands.run import duration
from harness.commands.scheduler_option import add_scheduler, task_runner
from harness.config.preprocessing import RESIZES

if TYPE_CHECKING:
    from harness.config.targets import Target
    from harness.runtimes.engine import HostEngine

_PAGE = "search.html"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, policy_help=None)
    add_dataset(parser, what="pictures: as for harness eval; labels are not necessary", split="default: val")
    parser.add_argument("--target", required=True, metavar="T", help="search for this target's board")
    parser.add_argument(
        "--threads", type=positive_number, default=1, metavar="N", help="threads of an inference (default: 1)"
    )
    limits = add_limits(parser, "limits", drop=DROP, agreement=True)
    limits.add_argument(
        "--budget", type=duration, metavar="T", help="end the search after this time: 90s, 20m, 1h"
    )
    pictures = parser.add_argument_group("pictures")
    pictures.add_argument("--limit", type=positive_number, metavar="N", help="use only the first N pictures")
    pictures.add_argument(
        "--resize", choices=RESIZES, help="resize pictures by this method (default: as in eval)"
    )
    pictures.add_argument(
        "--labels", type=Path, metavar="F", help="read WordNet ids in output order from this file"
    )
    add_calibration(pictures)
    parser.add_argument(
        "--jobs", type=positive_number, metavar="N", help="run N evaluations at once (default: one per core)"
    )
    add_scheduler(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write the cfgs of the front and a page with charts to this folder",
    )


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.config.targets import load_target
    from harness.search.board_search import check_solver

    check_solver()
    target = load_target(arguments.target)
    with model_files(arguments), with_policy(arguments, None, ranges=False) as cfg:
        document, interrupted = _search(arguments, cfg, target)
    if arguments.json:
        console.emit_json(document)
    else:
        from harness.report.search import show

        show(document)
    if interrupted:
        raise KeyboardInterrupt
    return 0


def _search(arguments: argparse.Namespace, cfg: Path, target: Target) -> tuple[dict[str, Any], bool]:
    """What was found, and whether the user ended the search before."""
    from harness import console
    from harness.accuracy.truth import warning_of_unlabelled
    from harness.runtimes.engine import host_engine
    from harness.search.board_search import Request, pictures_of, search_board
    from harness.search.found import search_document, write_policies
    from harness.search.point import Limits

    dataset = dataset_of(arguments)
    data = pictures_of(cfg, dataset, arguments.labels, arguments.limit)
    if warning := warning_of_unlabelled(dataset, data.unlabelled, len(data.pictures)):
        console.warn(warning)
    engine = host_engine()
    calibration = _ranges(arguments, cfg, dataset, engine)
    request = Request(
        cfg=cfg,
        weights=arguments.weights,
        calibration=calibration,
        dataset=dataset,
        target=target,
        limits=Limits(
            max_drop=arguments.max_drop,
            min_agreement=arguments.min_agreement,
            max_ms=1e3 / arguments.min_fps if arguments.min_fps else None,
            max_memory=memory_of(arguments),
        ),
        labels=arguments.labels,
        resize=arguments.resize,
        limit=arguments.limit,
        threads=arguments.threads,
        jobs=arguments.jobs,
        seconds=arguments.budget or math.inf,
    )
    with task_runner(arguments.scheduler, arguments.jobs) as runner:
        found = search_board(request, engine, runner)
    written = write_policies(arguments.out, found.model, found.search.front) if arguments.out else []
    document = search_document(
        found.search, found.seen, found.verified, written, found.timer, arguments.target, found.model.network
    )
    document |= {"calibration": str(calibration), "page": None}
    if arguments.out:
        from harness.files import write_atomically
        from harness.report.search_page import search_page

        path = arguments.out / _PAGE
        name = (arguments.model or arguments.cfg).stem
        write_atomically(path, search_page(document, name).encode())
        document["page"] = str(path)
    return document, found.interrupted


def _ranges(arguments: argparse.Namespace, cfg: Path, dataset: Path, engine: HostEngine) -> Path:
    """The calibration of the command line, else ranges of pictures of the search."""
    from harness.runtimes.engine import EngineOptions
    from harness.search.evaluation import default_folder
    from harness.search.ranges import recorded_ranges

    given: Path | None = arguments.calibration
    return given or recorded_ranges(
        engine,
        cfg=cfg,
        weights=arguments.weights,
        dataset=dataset,
        evaluated=0,
        resize=arguments.resize,
        options=EngineOptions(threads=os.cpu_count() or 1),
        folder=default_folder(),
    )
