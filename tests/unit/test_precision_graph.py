"""How tensors are stored under many assignments at once, against the plan of one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from exported_models import write_random

from harness.exporting.calibration import read_calibration
from harness.exporting.network import Network, read_network
from harness.exporting.precision_plan import plan_precisions
from harness.search.precision_graph import INT8, WIDTH, precision_graph

NET = "[net]\nchannels=2\nheight=4\nwidth=4\n"
CONVOLUTION = "[convolutional]\nfilters=2\nactivation=linear\n"
POOL = "[maxpool]\nsize=1\n"
AVERAGE = "[pool]\ntype=average\nsize=1\n"
CROP = "[crop]\ncrop_height=4\ncrop_width=4\n"


def random_sections(random: np.random.Generator) -> str:
    """Layers of every rule; all tensors have the same size."""
    sections = [CONVOLUTION]
    while len(sections) < 14:
        earlier = int(random.integers(len(sections)))
        sections.append(
            str(
                random.choice(
                    [
                        CONVOLUTION,
                        CONVOLUTION,
                        CONVOLUTION + f"from={earlier}\n",
                        POOL,
                        AVERAGE,
                        CROP,
                        f"[shortcut]\nfrom={earlier}\nactivation=linear\n",
                        f"[route]\nlayers=-1,{earlier}\n" + CONVOLUTION,
                        f"[route]\nlayers={earlier}\n",
                        "[softmax]\naxis=channels\n",
                    ]
                )
            )
        )
    return "".join(sections)


@pytest.mark.parametrize("seed", range(25))
def test_many_assignments_are_planned_as_one_by_one(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    cfg, weights = write_random(tmp_path, NET + random_sections(random))
    network = read_network(cfg, weights)
    known = [layer for layer in range(-1, len(network.layers)) if layer < 0 or random.random() < 0.9]
    path = tmp_path / "ranges.json"
    tensors = [{"layer": layer, "min": 0, "max": layer + 2} for layer in known]
    path.write_text(json.dumps({"format": "mpe-calibration", "version": 1, "tensors": tensors}))
    calibration = read_calibration(path, network)
    graph = precision_graph(network, calibration)
    assignments = random.integers(0, len(WIDTH), (20, len(graph.weighted))).astype(np.int8)
    executed = graph.executed(assignments)
    stored = graph.stored(executed)
    for number, assignment in enumerate(assignments):
        formats = plan_precisions(
            _with_precisions(network, dict(zip(graph.weighted, assignment, strict=True))), calibration
        )
        assert [WIDTH[label] for label in stored[number]] == [form.output.precision for form in formats]
        for index in graph.weighted:
            assert WIDTH[executed[number, index]] == formats[index].executed


def _with_precisions(network: Network, labels: dict[int, np.int8]) -> Network:
    layers = [
        replace(layer, precision=WIDTH[labels[layer.index]], quantize=labels[layer.index] == INT8)
        if layer.index in labels
        else layer
        for layer in network.layers
    ]
    return replace(network, layers=tuple(layers))
