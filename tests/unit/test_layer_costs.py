"""Latency models fitted to inferences whose costs are known."""

from __future__ import annotations

import numpy as np
import pytest
from random_precision_graphs import random_graph

from harness.search.latency import LatencyModel
from harness.search.layer_costs import Probe, fit_latency, probe_assignments
from harness.search.precision_graph import WIDTH


@pytest.mark.parametrize("seed", range(20))
def test_a_model_is_found_again_from_its_inferences(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = random_graph(random)
    layers = len(graph.nodes)
    values = random.integers(1000, 100000, layers)
    rates = random.uniform(0, 1e-5, (len(WIDTH), len(WIDTH)))
    np.fill_diagonal(rates, 0)
    truth = LatencyModel(
        graph=graph,
        execution=random.uniform(0.5, 2, (layers, len(WIDTH))),
        conversion=rates * values[:, None, None],
    )
    assignments = probe_assignments(graph)
    probes = [
        Probe(assignment=assignment, layers=times)
        for assignment, times in zip(assignments, truth.by_layer(assignments), strict=True)
    ]
    found = fit_latency(graph, values, probes)
    others = random.integers(0, len(WIDTH), (200, len(graph.weighted))).astype(np.int8)
    true = truth.milliseconds(others)
    error = np.median(np.abs(found.milliseconds(others) / true - 1))
    without = np.median(np.abs(found.without_conversions().milliseconds(others) / true - 1))
    assert error < 0.01
    assert error < without
