"""The search of precisions, on networks whose losses and times are known."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from random_precision_graphs import WEIGHTED, random_graph

from harness import console
from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation
from harness.search.latency import LatencyModel
from harness.search.precision_graph import WIDTH
from harness.search.search import Limits, Point, Search

LAYERS = tuple(range(WEIGHTED))
EVERY = [
    Assignment.of_labels(LAYERS, np.array(labels, np.int8))
    for labels in itertools.product(range(len(WIDTH)), repeat=WEIGHTED)
]


class KnownLosses:
    """A network whose layers add noise, with some that disturb one another."""

    layers = LAYERS

    def __init__(self, random: np.random.Generator) -> None:
        self.noise = random.exponential(0.01, (WEIGHTED, len(WIDTH))) * [0, 0.001, 1]
        self.pairs = random.exponential(0.2, (WEIGHTED, WEIGHTED))
        self.evaluated: list[Assignment] = []
        self.fewest = 10**9  # evaluations, before Ctrl-C

    def uniform(self, precision: str) -> Assignment:
        return Assignment.uniform(LAYERS, precision)

    def evaluate(
        self, assignments: Sequence[Assignment], progress: console.Progress | None = None
    ) -> list[Evaluation]:
        if len(self.evaluated) + len(assignments) > self.fewest:
            raise KeyboardInterrupt
        self.evaluated += assignments
        return [self.evaluation(assignment) for assignment in assignments]

    def evaluation(self, assignment: Assignment) -> Evaluation:
        noises = self.noise[np.arange(WEIGHTED), assignment.labels()]
        noise = float(noises.sum() + np.sqrt(noises) @ self.pairs @ np.sqrt(noises))
        nearness = max(1 - noise, 0)
        return Evaluation(similarity=nearness, agreement=nearness, noise=noise, accuracy=0.4 * nearness)


def known_times(random: np.random.Generator) -> LatencyModel:
    graph = random_graph(random)
    layers = len(graph.nodes)
    conversion = random.uniform(0, 0.2, (layers, len(WIDTH), len(WIDTH)))
    conversion[:, np.arange(len(WIDTH)), np.arange(len(WIDTH))] = 0
    execution = random.uniform(0.5, 1, (layers, len(WIDTH))) * [3, 2, 1]
    return LatencyModel(graph=graph, execution=execution, conversion=conversion)


def searched(seed: int, limits: Limits) -> tuple[Search, KnownLosses]:
    random = np.random.default_rng(seed)
    losses = KnownLosses(random)
    search = Search(evaluator=losses, latency=known_times(random), limits=limits)
    search.run()
    return search, losses


@pytest.mark.parametrize("seed", range(10))
def test_the_best_point_is_nearly_as_fast_as_the_fastest_of_all(seed: int) -> None:
    limits = Limits(max_drop=0.005, min_agreement=0.98)
    search, losses = searched(seed, limits)
    best = search.best
    assert best is not None
    assert limits.met(best, search.fp32)
    assert len(losses.evaluated) < 120  # of 6561
    times = search.latency.milliseconds(np.stack([assignment.labels() for assignment in EVERY]))
    allowed = [
        milliseconds
        for assignment, milliseconds in zip(EVERY, times, strict=True)
        if limits.met(
            Point(assignment=assignment, milliseconds=0, evaluation=losses.evaluation(assignment)),
            search.fp32,
        )
    ]
    assert best.milliseconds <= 1.04 * min(allowed)


def test_the_front_has_no_point_that_another_one_beats() -> None:
    search, _ = searched(3, Limits(min_agreement=0.98))
    front = search.front
    assert search.best in front
    assert len(front) > 3
    assert [point.milliseconds for point in front] == sorted(point.milliseconds for point in front)
    for point in front:
        if point is not search.best:
            better = [
                other
                for other in search.points.values()
                if other.milliseconds < point.milliseconds
                and other.evaluation.agreement > point.evaluation.agreement
            ]
            assert better == []


def test_limits_that_nothing_meets() -> None:
    search, _ = searched(4, Limits(max_ms=0.001))
    assert search.best is None
    assert search.front


def test_ctrl_c_keeps_what_was_evaluated() -> None:
    random = np.random.default_rng(5)
    losses = KnownLosses(random)
    losses.fewest = 25
    search = Search(evaluator=losses, latency=known_times(random), limits=Limits(min_agreement=0.9))
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert 3 <= len(search.points) <= 25
    assert search.best is not None


@pytest.mark.parametrize("evaluations", [0, 12, 25])
def test_the_time_ends_a_search_and_what_it_found_is_kept(
    evaluations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(6)
    losses = KnownLosses(random)
    monkeypatch.setattr("harness.search.search.time.monotonic", lambda: float(len(losses.evaluated)))
    search = Search(
        evaluator=losses, latency=known_times(random), limits=Limits(min_agreement=0.98), seconds=evaluations
    )
    search.run()
    assert len(losses.evaluated) <= evaluations + 3 + 8  # all layers alike, and those that ran
    assert search.best is not None
    assert set(search.points) == set(losses.evaluated)
