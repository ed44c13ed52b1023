"""Weights in int8 that give what fp32 gives, by least squares on samples of a convolution's inputs.

All arrays begin with the groups of the convolution: inputs [groups, samples, values], outputs [groups,
samples, channels], weights [groups, channels, values], steps [groups, channels].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

# Shares of the inputs' mean square.
_DAMPING = 0.01  # makes moments invertible
_PRIOR = 0.1  # how much a fit keeps to the given weights: with less, it fits its own pictures alone
_LEAST = 1e-20
_MOST = 127
_SHARES = np.linspace(1, 0.7, 13)  # of the largest weight, which clipping tries


def fitted(weights: Doubles, inputs: Doubles, outputs: Doubles) -> Doubles:
    """The weights that give the outputs for these inputs, by ridge regression towards the given weights."""
    moments = second_moments(inputs)
    samples = inputs.shape[1]
    missing = (outputs - inputs @ weights.swapaxes(1, 2)).swapaxes(1, 2) @ inputs / samples
    change: Doubles = np.linalg.solve(damped(moments, _PRIOR), missing.swapaxes(1, 2)).swapaxes(1, 2)
    return weights + change


def second_moments(inputs: Doubles) -> Doubles:
    """[groups, values, values] the mean products of two inputs."""
    moments: Doubles = inputs.swapaxes(1, 2) @ inputs / inputs.shape[1]
    return moments


def damped(moments: Doubles, share: float = _DAMPING) -> Doubles:
    """Moments that can be inverted."""
    size = moments.shape[1]
    mean = np.trace(moments, axis1=1, axis2=2) / size
    added: Doubles = (share * mean + _LEAST)[:, None, None] * np.eye(size)
    return moments + added


def rounded(weights: Doubles, steps: Doubles, moments: Doubles) -> Doubles:
    """Weights as multiples of their steps.

    The values are rounded one after the other, and those not yet rounded make up for the error, as far as the
    inputs' correlations allow (Frantar et al., "GPTQ", ICLR 2023). Values with the largest inputs come first.
    """
    order = np.argsort(-np.diagonal(moments, axis1=1, axis2=2), axis=1, kind="stable")
    sorted_moments = np.take_along_axis(
        np.take_along_axis(damped(moments), order[:, :, None], axis=1), order[:, None, :], axis=2
    )
    factors = np.linalg.cholesky(np.linalg.inv(sorted_moments)).swapaxes(1, 2)
    left = np.take_along_axis(weights, order[:, None, :], axis=2)
    done = np.empty_like(left)
    for value in range(left.shape[2]):
        done[:, :, value] = _whole(left[:, :, value] / steps) * steps
        error = (left[:, :, value] - done[:, :, value]) / factors[:, value, value, None]
        left[:, :, value:] -= error[:, :, None] * factors[:, None, value, value:]
    result = np.empty_like(done)
    np.put_along_axis(result, np.broadcast_to(order[:, None, :], done.shape), done, axis=2)
    return result


def nearest(weights: Doubles, steps: Doubles) -> Doubles:
    """Weights as the nearest multiples of their steps."""
    return _whole(weights / steps[:, :, None]) * steps[:, :, None]


def steps_of(weights: Doubles, moments: Doubles | None = None) -> Doubles:
    """The step of each output channel: such that the largest weight is representable; with moments of the
    inputs, of several that clip, the one with the least error of the outputs for independent inputs."""
    largest: Doubles = np.maximum(np.abs(weights).max(axis=2), _LEAST) / _MOST
    if moments is None:
        return largest
    energy = np.diagonal(moments, axis1=1, axis2=2)[:, None, :]
    best, chosen = np.full(largest.shape, np.inf), largest
    for share in _SHARES:
        error = nearest(weights, largest * share) - weights
        loss = (error**2 * energy).sum(axis=2)
        chosen = np.where(loss < best, largest * share, chosen)
        best = np.minimum(loss, best)
    return chosen


def _whole(values: Doubles) -> Doubles:
    rounded_values: Doubles = np.clip(np.rint(values), -_MOST, _MOST)
    return rounded_values
