"""The integer programme against trying every assignment, on random networks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from random_precision_graphs import WEIGHTED, random_graph

from harness.search.latency import LatencyModel
from harness.search.precision_graph import WIDTH
from harness.search.programme import fastest

SEEDS = 200
EVERY = np.array(list(itertools.product(range(len(WIDTH)), repeat=WEIGHTED)), np.int8)


def random_model(random: np.random.Generator) -> LatencyModel:
    graph = random_graph(random)
    layers = len(graph.nodes)
    conversion = random.uniform(-0.1, 1, (layers, len(WIDTH), len(WIDTH)))
    conversion[:, np.arange(len(WIDTH)), np.arange(len(WIDTH))] = 0
    return LatencyModel(
        graph=graph, execution=random.uniform(0, 2, (layers, len(WIDTH))), conversion=conversion
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_programme_finds_what_trying_everything_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    model = random_model(random)
    losses = random.uniform(0, 1, (WEIGHTED, len(WIDTH))) * [0, 0.3, 1]
    if seed % 3 == 0:
        losses[random.random(losses.shape) < 0.1] = np.inf
    most = float(random.uniform(-0.05, 3))
    times = model.milliseconds(EVERY)
    lost = losses[np.arange(WEIGHTED), EVERY].sum(axis=1)
    allowed = lost <= most
    found = fastest(model, losses, most)
    if not allowed.any():
        assert found is None
        return
    assert found is not None
    assert found.proven
    assert found.loss <= most + 1e-9
    assert found.milliseconds == pytest.approx(times[allowed].min(), abs=1e-6)
