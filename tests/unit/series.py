"""Samples of which it is known how they came about."""

from __future__ import annotations

import math

import numpy as np


def correlated(generator: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """Normal samples with mean 100 and variance 1, each correlated with the one before."""
    noise = generator.normal(size=count) * math.sqrt(1 - correlation**2)
    noise[0] = generator.normal()
    for place in range(1, count):
        noise[place] += correlation * noise[place - 1]
    return 100 + noise


def processes(generator: np.random.Generator, rounds: int, count: int, offsets: float) -> np.ndarray:
    """So many samples of each of so many processes: their levels are 100 with this standard deviation, as a
    fraction, and each varies by 0.5 %."""
    levels = 100 * (1 + generator.normal(0, offsets, (rounds, 1)))
    return levels * (1 + generator.normal(0, 0.005, (rounds, count)))


def with_outliers(generator: np.random.Generator, samples: np.ndarray) -> np.ndarray:
    """The samples, 2 % of them half as long again."""
    return samples * np.where(generator.random(samples.shape) < 0.02, 1.5, 1.0)
