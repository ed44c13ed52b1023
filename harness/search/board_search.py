"""A whole search of one model for one board: costs of layers, the search, and the check of what it found."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from harness.accuracy.evaluate import check_dataset
from harness.accuracy.truth import Dataset
from harness.config.darknet_cfg import read_cfg
from harness.config.targets import Target
from harness.errors import ConfigurationError
from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.prediction.predictor import find_predictor
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.evaluator import Evaluator
from harness.search.layer_costs import probed_costs
from harness.search.layer_timer import LayerTimer, MeasuredTimer, Model, PredictedTimer
from harness.search.point import Limits
from harness.search.precision_graph import WIDTH, precision_graph
from harness.search.search import Search
from harness.search.verification import Verified, verify
from harness.tasks.base import TaskRunner

_FEWEST = 4  # pictures: half of them for the search


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to search. `labels`, `resize` and `limit` are as in `harness eval`."""

    cfg: Path
    weights: Path
    calibration: Path  # the ranges of int8
    dataset: Path
    target: Target
    limits: Limits  # that of accuracy only counts with labels
    labels: Path | None = None
    resize: str | None = None
    limit: int | None = None
    threads: int = 1
    jobs: int | None = None  # evaluations at once; None: one per core
    seconds: float = math.inf


@dataclass(frozen=True, kw_only=True)
class BoardSearch:
    """What was found. `seen` has the pictures of the search."""

    search: Search
    seen: Evaluator
    timer: LayerTimer
    model: Model
    verified: Sequence[Verified] = ()  # in the order of the front
    interrupted: bool = False  # by the user


def check_solver() -> None:
    """Raises ConfigurationError if SciPy is not installed."""
    if find_spec("scipy") is None:
        raise ConfigurationError(
            "the Python package scipy is not installed",
            hint="Install it with `pip install 'harness[search]'`.",
        )


def pictures_of(cfg: Path, dataset: Path, labels: Path | None, limit: int | None) -> Dataset:
    """The pictures of a search, half of which verify what it found. Raises ConfigurationError if there are
    too few."""
    data = check_dataset(cfg, dataset, labels, agreement=True).first(limit)
    if len(data.pictures) < _FEWEST:
        raise ConfigurationError(
            f"{dataset}: {len(data.pictures)} pictures are too few: half of them are for the search, the "
            "others verify what it found",
            hint=f"Use at least {_FEWEST}, better a hundred.",
        )
    return data


def search_board(request: Request, engine: HostEngine, runner: TaskRunner | None = None) -> BoardSearch:
    """Searches and verifies; Ctrl-C ends the search, and what it found until then is returned. `runner` runs
    the evaluations (default: this process).

    Raises ConfigurationError on bad input or without SciPy, BuildError if the target cannot be emulated, and
    KeyboardInterrupt if nothing was found yet.
    """
    check_solver()
    data = pictures_of(request.cfg, request.dataset, request.labels, request.limit)
    half = len(data.pictures) // 2
    network = read_network(request.cfg, request.weights)
    ranges = read_calibration(request.calibration, network)
    if any(tensor.published for tensor in ranges.tensors.values()):
        raise ConfigurationError(
            f"{network.file}: the model was published in int8, so there is nothing to search",
            hint="Search with the fp32 model from which it was made.",
        )
    model = Model(network=read_cfg(request.cfg), weights=request.weights, calibration=request.calibration)
    timer = _timer(request, engine, model)
    latency, memory = probed_costs(network, precision_graph(network, ranges), timer)

    def evaluator(skip: int) -> Evaluator:
        return Evaluator(
            engine,
            cfg=request.cfg,
            weights=request.weights,
            dataset=request.dataset,
            calibration=request.calibration,
            labels=request.labels,
            resize=request.resize,
            skip=skip,
            limit=half,
            options=EngineOptions(threads=request.jobs or os.cpu_count() or 1),
            runner=runner,
        )

    with evaluator(skip=0) as seen:
        search = Search(
            evaluator=seen,
            latency=latency,
            memory=memory,
            limits=request.limits if seen.metric else request.limits.without_accuracy(),
            needed=lambda assignment: timer.time([assignment])[0].memory_bytes,
            seconds=request.seconds,
        )
        found = BoardSearch(search=search, seen=seen, timer=timer, model=model)
        try:
            search.run()
        except KeyboardInterrupt:
            if len(search.points) < len(WIDTH):
                raise
            return replace(found, interrupted=True)
    with evaluator(skip=half) as unseen:
        return replace(found, verified=verify(search.front, unseen, timer))


def _timer(request: Request, engine: HostEngine, model: Model) -> LayerTimer:
    target, threads = request.target, request.threads
    if target.is_host:
        return MeasuredTimer(model=model, engine=engine, threads=threads)
    return PredictedTimer(model=model, target=target, predictor=find_predictor(target), threads=threads)
