"""The search of precisions, on networks whose losses and times are known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from random_precision_graphs import WEIGHTED, any_memory, random_graph

from harness import console
from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation
from harness.search.latency import LatencyModel
from harness.search.memory import Bytes
from harness.search.point import Limits, Point
from harness.search.precision_graph import WIDTH, Labels
from harness.search.search import Search

LAYERS = tuple(range(WEIGHTED))
EVERY = [
    Assignment.of_labels(LAYERS, np.array(labels, np.int8))
    for labels in itertools.product(range(len(WIDTH)), repeat=WEIGHTED)
]


class KnownLosses:
    """A network whose layers add noise, with some that disturb one another."""

    layers = LAYERS
    at_once = 1

    def __init__(self, random: np.random.Generator) -> None:
        self.noise = random.exponential(0.01, (WEIGHTED, len(WIDTH))) * [0, 0.001, 1]
        self.pairs = random.exponential(0.2, (WEIGHTED, WEIGHTED))
        self.memory_bytes: Callable[[Labels], Bytes] = lambda labels: np.zeros(len(labels))  # of inferences
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
    search, losses = new_search(seed, limits)
    search.run()
    return search, losses


def new_search(seed: int, limits: Limits, *, error: float = 1.0, seconds: float = float("inf")) -> Any:
    """A search and its losses. Inferences need `error` times the bytes of the model beyond its base."""
    random = np.random.default_rng(seed)
    losses = KnownLosses(random)
    latency = known_times(random)
    memory = any_memory(latency.graph, random)

    losses.memory_bytes = lambda labels: memory.base + error * (memory.bytes(labels) - memory.base)
    search = Search(
        evaluator=losses,
        latency=latency,
        memory=memory,
        limits=limits,
        needed=lambda assignment: float(losses.memory_bytes(assignment.labels()[None])[0]),
        seconds=seconds,
    )
    return search, losses


def least_time(search: Search, losses: KnownLosses) -> float | None:
    """Milliseconds of the fastest of all assignments that meet the limits; None if none does."""
    labels = np.stack([assignment.labels() for assignment in EVERY])
    times, memory = search.latency.milliseconds(labels), losses.memory_bytes(labels)
    for place in np.argsort(times):
        point = Point(
            assignment=EVERY[place],
            milliseconds=float(times[place]),
            memory_bytes=float(memory[place]),
            evaluation=losses.evaluation(EVERY[place]),
        )
        if search.limits.met(point, search.fp32):
            return point.milliseconds
    return None


@pytest.mark.parametrize("seed", range(10))
def test_the_best_point_is_nearly_as_fast_as_the_fastest_of_all(seed: int) -> None:
    limits = Limits(max_drop=0.005, min_agreement=0.98)
    search, losses = searched(seed, limits)
    best = search.best
    assert best is not None
    assert limits.met(best, search.fp32)
    assert len(losses.evaluated) < 120  # of 6561
    least = least_time(search, losses)
    assert least is not None
    assert best.milliseconds <= 1.04 * least


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
    search, losses = new_search(5, Limits(min_agreement=0.9))
    losses.fewest = 25
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert 3 <= len(search.points) <= 25
    assert search.best is not None


@pytest.mark.parametrize("evaluations", [0, 12, 25])
def test_the_time_ends_a_search_and_what_it_found_is_kept(
    evaluations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, losses = new_search(6, Limits(min_agreement=0.98), seconds=evaluations)
    monkeypatch.setattr("harness.search.search.time.monotonic", lambda: float(len(losses.evaluated)))
    search.run()
    assert len(losses.evaluated) <= evaluations + 3 + 8  # all layers alike, and those that ran
    assert search.best is not None
    assert set(search.points) == set(losses.evaluated)


@pytest.mark.parametrize("error", [1.0, 0.97, 1.03])
@pytest.mark.parametrize("seed", range(4))
def test_a_limit_of_memory_holds_for_an_inference(seed: int, error: float) -> None:
    """Also where an inference needs less or more than the model says. The limit is halfway between the least
    memory of all and that of the fastest policy without a limit."""
    free, _ = searched(seed, Limits(min_agreement=0.9))
    assert free.best is not None
    least_memory = free.memory.bytes(np.stack([assignment.labels() for assignment in EVERY])).min()
    limit = float(least_memory + free.best.memory_bytes) / 2
    search, losses = new_search(seed, Limits(min_agreement=0.9, max_memory=limit), error=error)
    search.run()
    least, best = least_time(search, losses), search.best
    if least is None:
        assert best is None
        return
    assert best is not None
    assert best.checked
    assert best.memory_bytes == search.needed(best.assignment) <= limit
    # Where the model says too much, it excludes some that would fit.
    assert best.milliseconds <= (1.12 if error < 1 else 1.06) * least


def test_a_limit_of_memory_that_nothing_meets_names_what_comes_nearest() -> None:
    search, _ = searched(7, Limits(max_memory=1.0))
    assert search.best is None
    nearest = search.nearest
    assert nearest in search.front
    assert nearest.memory_bytes == min(point.memory_bytes for point in search.points.values())
    assert nearest.checked


def test_the_model_of_memory_may_say_too_much() -> None:
    """One inference of the policy with the least memory shows that the limit can be met."""
    search, _ = new_search(8, Limits(), error=0.5)
    needed = search.memory.bytes(np.stack([assignment.labels() for assignment in EVERY]))
    search.limits = Limits(max_memory=float(0.98 * needed.min()))
    search.run()
    assert search.best is not None
    assert search.nearest is None
    assert search.needed(search.best.assignment) <= search.limits.max_memory
