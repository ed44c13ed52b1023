"""`harness search`: the fastest precisions for a model on a board that lose no more than allowed."""

from __future__ import annotations

import argparse
import math
import os
from importlib.util import find_spec
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
from harness.config.preprocessing import RESIZES
from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.config.targets import Target
    from harness.runtimes.engine import HostEngine
    from harness.search.evaluator import Evaluator
    from harness.search.layer_timer import LayerTimer, Model
    from harness.search.point import Limits

_PAGE = "search.html"
_FEWEST = 4  # pictures: half of them for the search


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
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write the cfgs of the front and a page with charts to this folder",
    )


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.config.targets import load_target

    if find_spec("scipy") is None:
        raise ConfigurationError(
            "the Python package scipy is not installed",
            hint="Install it with `pip install 'harness[search]'`.",
        )
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
    from harness.config.darknet_cfg import read_cfg
    from harness.exporting.calibration import read_calibration
    from harness.exporting.network import read_network
    from harness.runtimes.engine import EngineOptions, host_engine
    from harness.search.evaluator import Evaluator
    from harness.search.found import search_document, write_policies
    from harness.search.layer_costs import probed_costs
    from harness.search.layer_timer import Model
    from harness.search.precision_graph import WIDTH, precision_graph
    from harness.search.search import Search
    from harness.search.verification import Verified, verify

    dataset = dataset_of(arguments)
    half = _half(arguments, cfg, dataset)
    engine = host_engine()
    calibration = _ranges(arguments, cfg, dataset, engine)
    network = read_network(cfg, arguments.weights)
    ranges = read_calibration(calibration, network)
    if any(tensor.published for tensor in ranges.tensors.values()):
        raise ConfigurationError(
            f"{network.file}: the model was published in int8, so there is nothing to search",
            hint="Search with the fp32 model from which it was made.",
        )
    model = Model(network=read_cfg(cfg), weights=arguments.weights, calibration=calibration)
    timer = _timer(target, engine, model, arguments.threads)
    latency, memory = probed_costs(network, precision_graph(network, ranges), timer)

    def evaluator(skip: int) -> Evaluator:
        return Evaluator(
            engine,
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            calibration=calibration,
            labels=arguments.labels,
            resize=arguments.resize,
            skip=skip,
            limit=half,
            options=EngineOptions(threads=arguments.jobs or os.cpu_count() or 1),
        )

    interrupted = False
    with evaluator(skip=0) as seen:
        limits = _limits(arguments, labelled=seen.metric is not None)
        search = Search(
            evaluator=seen,
            latency=latency,
            memory=memory,
            limits=limits,
            needed=lambda assignment: timer.time([assignment])[0].memory_bytes,
            seconds=arguments.budget or math.inf,
        )
        try:
            search.run()
        except KeyboardInterrupt:
            if len(search.points) < len(WIDTH):
                raise
            interrupted = True
    front = search.front
    verified: list[Verified] = []
    if not interrupted:
        with evaluator(skip=half) as unseen:
            verified = verify(front, unseen, timer)
    written = write_policies(arguments.out, model, front) if arguments.out else []
    document = search_document(search, seen, verified, written, timer, arguments.target, model.network)
    document |= {"calibration": str(calibration), "page": None}
    if arguments.out:
        from harness.files import write_atomically
        from harness.report.search_page import search_page

        path = arguments.out / _PAGE
        name = (arguments.model or arguments.cfg).stem
        write_atomically(path, search_page(document, name).encode())
        document["page"] = str(path)
    return document, interrupted


def _half(arguments: argparse.Namespace, cfg: Path, dataset: Path) -> int:
    """The number of pictures of the search; as many others verify what it found."""
    from harness import console
    from harness.accuracy.evaluate import check_dataset
    from harness.accuracy.truth import warning_of_unlabelled

    data = check_dataset(cfg, dataset, arguments.labels, agreement=True).first(arguments.limit)
    if len(data.pictures) < _FEWEST:
        raise ConfigurationError(
            f"{dataset}: {len(data.pictures)} pictures are too few: half of them are for the search, the "
            "others verify what it found",
            hint=f"Use at least {_FEWEST}, better a hundred.",
        )
    if warning := warning_of_unlabelled(dataset, data.unlabelled, len(data.pictures)):
        console.warn(warning)
    return len(data.pictures) // 2


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


def _timer(target: Target, engine: HostEngine, model: Model, threads: int) -> LayerTimer:
    from harness.prediction.predictor import find_predictor
    from harness.search.layer_timer import MeasuredTimer, PredictedTimer

    if target.is_host:
        return MeasuredTimer(model=model, engine=engine, threads=threads)
    return PredictedTimer(model=model, target=target, predictor=find_predictor(target), threads=threads)


def _limits(arguments: argparse.Namespace, *, labelled: bool) -> Limits:
    from harness.search.point import Limits

    return Limits(
        max_drop=arguments.max_drop if labelled else None,
        min_agreement=arguments.min_agreement,
        max_ms=1e3 / arguments.min_fps if arguments.min_fps else None,
        max_memory=memory_of(arguments),
    )
