"""Outputs that no decoder reads, compared with fp32's: a score that needs no labels and no meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.accuracy.boxes import Floats
from harness.accuracy.sqnr import decibels

TOLERANCE = 0.01  # of a tensor's largest magnitude in a picture


@dataclass(kw_only=True)
class OutputNoise:
    """One output compared with fp32's, over all pictures so far."""

    name: str
    shape: tuple[int, ...]
    signal: float = 0.0  # sum of squares of fp32's
    noise: float = 0.0  # sum of squares of the difference
    shares: list[float] = field(default_factory=list)  # of each picture's values within TOLERANCE

    def add(self, given: Floats, expected: Floats) -> None:
        """Another picture."""
        difference = given.astype(np.float64) - expected
        # Without BLAS, whose threads compete with other evaluations for the cores.
        self.signal += float(np.square(expected, dtype=np.float64).sum())
        self.noise += float(np.square(difference).sum())
        within = np.abs(difference) <= TOLERANCE * np.abs(expected).max(initial=0)
        self.shares.append(float(within.mean()))

    @property
    def sqnr_db(self) -> float | None:
        """10 log10(signal / noise); None without noise or without signal."""
        return decibels(self.signal, self.noise)

    @property
    def agreement(self) -> float:
        """The mean share of values within TOLERANCE of fp32's."""
        return float(np.mean(self.shares))


def compare_outputs(
    names: Sequence[str], pictures: Iterable[tuple[Sequence[Floats], Sequence[Floats]]]
) -> list[OutputNoise]:
    """A row per output, from the outputs and fp32's of each picture."""
    rows: list[OutputNoise] = []
    for given, expected in pictures:
        if not rows:
            rows = [
                OutputNoise(name=name, shape=tensor.shape)
                for name, tensor in zip(names, expected, strict=True)
            ]
        for row, one, other in zip(rows, given, expected, strict=True):
            row.add(one, other)
    return rows
