"""Fits a board's coefficients to measured times, and estimates their error.

The fit minimises the sum of the absolute relative errors. Squares would give outliers too much weight, and
some published times are far off.

An error is prediction / measured time - 1. It is computed by leave-one-out: each measurement is predicted
with coefficients fitted to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.config.board_data import BoardData, Coefficients
from harness.errors import ConfigurationError
from harness.prediction.model import Work, features

LEAST_MEASUREMENTS = 4  # two coefficients, fitted on all but one of them
_PARALLEL = 1e-9  # determinant of two nearly proportional measurements

_Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The time of a board for some work."""

    name: str
    work: Work
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Coefficients, and the leave-one-out error of each measurement."""

    coefficients: Coefficients
    errors: Mapping[str, float]


def fit(measurements: Sequence[Measurement], board: BoardData, threads: int, fitted_on: str) -> Fit:
    """Raises ConfigurationError for too few measurements."""
    if len(measurements) < LEAST_MEASUREMENTS:
        raise ConfigurationError(
            f"{len(measurements)} measured times are too few to fit two coefficients",
            hint=f"Measure at least {LEAST_MEASUREMENTS} different networks or policies.",
        )
    shares = _shares(measurements, board, threads)
    compute, memory = _least_errors(shares)
    errors = [
        float(shares[i] @ _least_errors(np.delete(shares, i, axis=0))) - 1 for i in range(len(measurements))
    ]
    return _fit(float(compute), float(memory), fitted_on, measurements, errors)


def fit_memory(
    measurements: Sequence[Measurement], board: BoardData, threads: int, compute: float, fitted_on: str
) -> Fit:
    """Fits the coefficient of memory for several threads, with the compute coefficient of one thread: a core
    computes as fast as alone, and shares the memory. Raises ConfigurationError for too few measurements."""
    if len(measurements) < LEAST_MEASUREMENTS:
        raise ConfigurationError(
            f"{len(measurements)} measured times of {threads} threads are too few to fit a coefficient",
            hint=f"Measure at least {LEAST_MEASUREMENTS} different networks or policies.",
        )
    shares = _shares(measurements, board, threads)
    left = 1 - compute * shares[:, 0]  # of each time, for the memory
    memory = _least_error(left, shares[:, 1])
    errors = [
        float(shares[i, 1] * _least_error(np.delete(left, i), np.delete(shares[:, 1], i)) - left[i])
        for i in range(len(measurements))
    ]
    return _fit(compute, memory, fitted_on, measurements, errors)


def errors_of(
    coefficients: Coefficients, measurements: Sequence[Measurement], board: BoardData, threads: int
) -> dict[str, float]:
    """The error of each of the board's measurements with coefficients from another fit."""
    if not measurements:
        return {}
    errors = _shares(measurements, board, threads) @ (coefficients.compute, coefficients.memory) - 1
    return {measured.name: float(error) for measured, error in zip(measurements, errors, strict=True)}


def fit_together(groups: Sequence[tuple[Sequence[Measurement], BoardData]], threads: int) -> Coefficients:
    """One pair of coefficients for the measurements of several boards, for a board without measurements."""
    shares = np.concatenate([_shares(measurements, board, threads) for measurements, board in groups])
    compute, memory = _least_errors(shares)
    return Coefficients(compute=float(compute), memory=float(memory))


def _shares(measurements: Sequence[Measurement], board: BoardData, threads: int) -> _Matrix:
    """The shares of cycles and of memory in each measured time, for coefficients of 1. [n, 2]"""
    return np.array(
        [
            [part / measured.milliseconds for part in features(measured.work, board, threads)]
            for measured in measurements
        ]
    )


def _least_errors(shares: _Matrix) -> _Matrix:
    """The two non-negative coefficients that minimise sum |shares @ coefficients - 1|.

    The sum is convex, and linear between the lines on which an error is zero. Its minimum is therefore at the
    crossing of two such lines or of one with an axis. All these points are tried; ties go to the first.
    """
    compute, memory = shares.T
    first, second = np.triu_indices(len(shares), 1)
    determinant = compute[first] * memory[second] - compute[second] * memory[first]
    scale = compute[first] * memory[second] + compute[second] * memory[first]
    crossing = np.abs(determinant) > _PARALLEL * scale
    first, second, determinant = first[crossing], second[crossing], determinant[crossing]
    crossings = np.stack([memory[second] - memory[first], compute[first] - compute[second]], axis=1)
    points = np.concatenate(
        [
            crossings / determinant[:, None],
            *(
                1 / part[part > 0][:, None] * axis
                for part, axis in ((compute, np.array([1.0, 0.0])), (memory, np.array([0.0, 1.0])))
            ),
        ]
    )
    points = points[(points >= 0).all(axis=1)]
    sums = np.abs(points @ shares.T - 1).sum(axis=1)
    best: _Matrix = points[np.argmin(sums)]
    return best


def _least_error(left: _Matrix, shares: _Matrix) -> float:
    """The non-negative coefficient that minimises sum |coefficient * shares - left|: it makes one of the
    terms zero, or is zero itself."""
    moved = shares > 0
    found = np.append(np.maximum(left[moved] / shares[moved], 0.0), 0.0)
    sums = np.abs(found[:, None] * shares - left).sum(axis=1)
    return float(found[np.argmin(sums)])


def _fit(
    compute: float,
    memory: float,
    fitted_on: str,
    measurements: Sequence[Measurement],
    errors: Sequence[float],
) -> Fit:
    sizes = np.abs(errors)
    return Fit(
        coefficients=Coefficients(
            compute=compute,
            memory=memory,
            fitted_on=fitted_on,
            median_error=float(np.median(sizes)),
            error_p90=float(np.quantile(sizes, 0.9, method="higher")),
        ),
        errors={measured.name: error for measured, error in zip(measurements, errors, strict=True)},
    )
