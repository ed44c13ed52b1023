"""The figures of each layer of a prediction: its time, its parts, and how near the core's peak it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from harness.prediction.engine_run import LayerDescription

if TYPE_CHECKING:
    from harness.prediction.parts import LayerParts


@dataclass(frozen=True, kw_only=True)
class LayerFigures(LayerDescription):
    """None: not known, or of a layer without multiply-adds."""

    predicted_ms: float | None  # the sum of the parts below
    compute_ms: float | None = None  # in loops of multiply-adds
    activation_ms: float | None = None  # from sums to outputs: activation, pooling, rounding
    conversion_ms: float | None = None  # conversions, transforms, copies, and everything else
    memory_ms: float | None = None
    bound: str | None = None  # the largest of these parts
    multiply_adds_per_second: float | None = None  # of all threads
    peak_fraction: float | None = None  # of what the cores multiply and add at best in this precision


def layer_figures(
    layers: Sequence[LayerDescription], parts: Mapping[int, LayerParts], peaks: Mapping[str, float]
) -> list[LayerFigures]:
    """`peaks`: multiply-adds per second of all threads' cores, by precision."""
    return [_figures(layer, parts.get(layer.index), peaks) for layer in layers]


def _figures(layer: LayerDescription, parts: LayerParts | None, peaks: Mapping[str, float]) -> LayerFigures:
    if parts is None:
        return LayerFigures(**asdict(layer), predicted_ms=None)
    if not (layer.multiply_adds and parts.milliseconds):
        return LayerFigures(**asdict(layer), predicted_ms=parts.milliseconds)
    rate = layer.multiply_adds / (1e-3 * parts.milliseconds)
    return LayerFigures(
        **asdict(layer),
        predicted_ms=parts.milliseconds,
        compute_ms=parts.compute,
        activation_ms=parts.activation,
        conversion_ms=parts.conversion,
        memory_ms=parts.memory,
        bound=parts.bound,
        multiply_adds_per_second=rate,
        peak_fraction=rate / peaks[layer.executed] if layer.executed in peaks else None,
    )
