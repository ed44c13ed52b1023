"""Random networks as graphs of precisions."""

from __future__ import annotations

import numpy as np

from harness.config.darknet_cfg import NETWORK_INPUT
from harness.exporting.precision_plan import Rule
from harness.search.precision_graph import Node, PrecisionGraph

WEIGHTED = 8
UNWEIGHTED = (Rule.KEEPS, Rule.JOINS, Rule.REQUANTIZES, Rule.WIDENS, Rule.FLOAT)


def random_graph(random: np.random.Generator) -> PrecisionGraph:
    """Eight layers with weights in any order among up to six others, with one to three inputs each."""
    rules = [Rule.ASKED] * WEIGHTED + list(random.choice(np.array(UNWEIGHTED), random.integers(0, 7)))
    random.shuffle(rules)
    nodes = []
    for index, rule in enumerate(rules):
        several = rule in (Rule.JOINS, Rule.REQUANTIZES, Rule.WIDENS)
        count = int(random.integers(1, 4)) if several else 1
        # Mostly recent layers, so that there are chains as well as branches.
        reach = max(index - int(random.integers(1, 5)), NETWORK_INPUT)
        inputs = tuple(int(source) for source in random.integers(reach, index, count))
        nodes.append(Node(rule=rule, inputs=inputs, known=random.random() < 0.9, int8=random.random() < 0.95))
    return PrecisionGraph(nodes=tuple(nodes))
