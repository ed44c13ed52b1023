"""The integer programme against trying every assignment, on random networks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from random_precision_graphs import (
    WEIGHTED,
    any_memory,
    memory_of_lifetimes,
    random_graph,
)

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
    conversion[random.random(layers) < 0.3] = 0
    return LatencyModel(
        graph=graph, execution=random.uniform(0, 2, (layers, len(WIDTH))), conversion=conversion
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_programme_finds_what_trying_everything_finds(seed: int) -> None:
    """Within a limit of loss; with every other seed, within one of memory as well."""
    random = np.random.default_rng(seed)
    model = random_model(random)
    losses = random.uniform(0, 1, (WEIGHTED, len(WIDTH))) * [0, 0.3, 1]
    if seed % 3 == 0:
        losses[random.random(losses.shape) < 0.1] = np.inf
    most = float(random.uniform(-0.05, 3))
    times = model.milliseconds(EVERY)
    lost = losses[np.arange(WEIGHTED), EVERY].sum(axis=1)
    allowed = lost <= most
    memory, most_bytes = None, np.inf
    if seed % 2:
        memory = (any_memory if seed % 4 == 1 else memory_of_lifetimes)(model.graph, random)
        needed = memory.bytes(EVERY)
        # Between what the fastest assignment needs and the least of all, or a little less than that.
        fast = needed[allowed][times[allowed].argmin()] if allowed.any() else needed.max()
        most_bytes = float(random.uniform(0.99 * needed.min(), fast))
        allowed &= needed <= most_bytes
    found = fastest(model, losses, most, memory=memory, most_bytes=most_bytes)
    if not allowed.any():
        assert found is None
        return
    assert found is not None
    assert found.proven
    assert found.loss <= most + 1e-9
    if memory:
        assert memory.bytes(found.assignment[None])[0] <= most_bytes * (1 + 1e-6)
    assert found.milliseconds == pytest.approx(times[allowed].min(), abs=1e-6)
