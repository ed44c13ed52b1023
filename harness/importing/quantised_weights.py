"""The weights of layers that the model stores as integers, on the engine's grid: symmetric, -127 to 127."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.importing.graph import Array, Node
from harness.importing.sections import Sections

_LARGEST = 127


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The keys of a layer's precision, its weights as real numbers, and their scales."""

    keys: tuple[tuple[str, object], ...]
    weights: Array
    scales: tuple[float, ...]


def precision_of(s: Sections, node: Node, weights: Array, axis: int) -> Precision:
    """How a layer computes that reads weights with their outputs along `axis`.

    Integer weights and inputs on a grid: int8, or int16 for inputs with 16 bits, with that grid. Integer
    weights alone: int8 with the range that the input has at run time. Anything else: fp32.
    """
    grid = s.graph.quantization(node.inputs[1])
    inputs = s.graph.quantization(node.inputs[0])
    plain = Precision(keys=(), weights=weights, scales=())
    if grid is None:
        return plain
    wide = inputs is not None and inputs.bits == 16 and inputs.zero_points == (0,)
    unknown = grid.bits != 8 or (inputs is not None and inputs.bits != 8 and not wide)
    if unknown or not (grid.per_tensor or (grid.axis == axis and len(grid.scales) == weights.shape[axis])):
        reason = (
            "weights or activations of another width"
            if unknown
            else f"scales along axis {grid.axis} of its weights"
        )
        s.warnings.append(f"{node.source.operator} {node.source.name!r}: runs in fp32, because of {reason}")
        return plain
    scales = np.array(grid.scales, np.float64)
    scales[scales == 0] = 1.0
    filters = weights.shape[axis]
    rows = np.moveaxis(weights, axis, 0).reshape(filters, -1).astype(np.float64)
    stored = np.rint(rows / scales.reshape(-1, 1))  # without their zero point
    largest = np.abs(stored).max(axis=1)
    wide_rows = largest > _LARGEST
    if wide_rows.any():
        scales = np.broadcast_to(scales, (filters,)).copy()
        scales[wide_rows] *= largest[wide_rows] / _LARGEST
        s.requantised.append((int(wide_rows.sum()), filters))
    keys: tuple[tuple[str, object], ...] = (("int8", 1), ("quantize", 0 if inputs is not None else 1))
    return Precision(
        keys=(("int16", 1),) if wide else keys,
        weights=weights,
        scales=tuple(float(np.float32(scale)) for scale in scales),
    )
