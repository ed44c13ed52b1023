"""Fits a board's two coefficients to measured times, and estimates their error.

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
    sizes = np.abs(errors)
    return Fit(
        coefficients=Coefficients(
            compute=float(compute),
            memory=float(memory),
            fitted_on=fitted_on,
            median_error=float(np.median(sizes)),
            error_p90=float(np.quantile(sizes, 0.9, method="higher")),
        ),
        errors={measured.name: error for measured, error in zip(measurements, errors, strict=True)},
    )


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
