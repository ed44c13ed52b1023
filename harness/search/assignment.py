"""Assignments: a precision for each layer with weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from harness.config.darknet_cfg import PRECISIONS, DarknetCfg
from harness.config.policy import Policy, Rule, Setting, applied
from harness.search.precision_graph import WIDTH, Labels


class Assignment(Mapping[int, str]):
    """The precision of each layer with weights, by the layer's index. Immutable and hashable."""

    def __init__(self, precisions: Mapping[int, str]) -> None:
        if unknown := set(precisions.values()).difference(PRECISIONS):
            raise ValueError(f"{min(unknown)} is none of {', '.join(PRECISIONS)}")
        self._precisions = {layer: precisions[layer] for layer in sorted(precisions)}

    @classmethod
    def uniform(cls, layers: Iterable[int], precision: str) -> Assignment:
        """The same precision for all these layers."""
        return cls(dict.fromkeys(layers, precision))

    @classmethod
    def of(cls, cfg: DarknetCfg) -> Assignment:
        """The precisions that a cfg asks for. Raises ValueError for int16, which no assignment has."""
        return cls({layer.index: layer.precision for layer in cfg.weighted})

    @classmethod
    def of_labels(cls, layers: Iterable[int], labels: Labels) -> Assignment:
        """The precisions of layers, as indices in WIDTH, [layers]."""
        return cls({layer: WIDTH[label] for layer, label in zip(layers, labels, strict=True)})

    def labels(self) -> Labels:
        """Indices in WIDTH, in the order of the layers."""
        return np.array([WIDTH.index(precision) for precision in self._precisions.values()], np.int8)

    def changed(self, changes: Mapping[int, str]) -> Assignment:
        """The same with other precisions for some layers. Raises KeyError for an unknown layer."""
        for layer in changes:
            self._precisions[layer]
        return Assignment(self._precisions | dict(changes))

    def policy(self, name: str) -> Policy:
        """The same as a policy: fp32, and a rule for each other layer. int8 uses recorded ranges."""
        return Policy(
            name=name,
            default=Setting(precision="fp32"),
            rules=tuple(
                Rule(selector=str(layer), setting=Setting(precision=precision))
                for layer, precision in self._precisions.items()
                if precision != "fp32"
            ),
        )

    def applied(self, cfg: DarknetCfg) -> DarknetCfg:
        """The cfg with these precisions. Raises ConfigurationError for a layer that the cfg does not have."""
        return applied(self.policy("assignment"), cfg)

    def __getitem__(self, layer: int) -> str:
        return self._precisions[layer]

    def __iter__(self) -> Iterator[int]:
        return iter(self._precisions)

    def __len__(self) -> int:
        return len(self._precisions)

    def __hash__(self) -> int:
        return hash(tuple(self._precisions.items()))

    def __repr__(self) -> str:
        return f"Assignment({self._precisions})"
