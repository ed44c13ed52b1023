"""The predicted time of each layer, what it is spent on, and how near the core's peak it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report.layers import bar, common_isa
from harness.report.table import NOTHING, Column, Table, figure

if TYPE_CHECKING:
    from harness.prediction.layer_figures import LayerFigures


def predicted_layers(title: str, layers: Sequence[LayerFigures]) -> Table[LayerFigures]:
    """The table. Layers without multiply-adds have a time only."""
    total = sum(layer.predicted_ms or 0.0 for layer in layers)
    most = max((layer.predicted_ms or 0.0 for layer in layers), default=0.0)
    common = common_isa([layer.isa for layer in layers])

    def share(layer: LayerFigures) -> float | None:
        return None if layer.predicted_ms is None or total == 0 else 100 * layer.predicted_ms / total

    def scaled(value: float | None, unit: float) -> str:
        return NOTHING if value is None else figure(value, unit)

    isa: Column[LayerFigures] = Column(
        heading="instruction set", text=lambda layer: layer.isa, number=False, spare=2
    )
    return Table(
        title=title,
        columns=[
            Column(heading="layer", text=lambda layer: str(layer.index)),
            Column(heading="type", text=lambda layer: layer.type, number=False),
            Column(
                heading="executed", text=lambda layer: f"{layer.executed} {layer.algorithm}", number=False
            ),
            *([] if common else [isa]),
            Column(heading="ms", text=lambda layer: figure(layer.predicted_ms)),
            Column(heading="share %", text=lambda layer: figure(share(layer)), spare=1),
            Column(heading="GMAC/s", text=lambda layer: scaled(layer.multiply_adds_per_second, 1e9)),
            Column(heading="peak %", text=lambda layer: scaled(layer.peak_fraction, 0.01)),
            Column(heading="bound", text=lambda layer: layer.bound or NOTHING, number=False),
            Column(
                heading="",
                text=lambda layer: bar((layer.predicted_ms or 0.0) / most if most else 0.0),
                number=False,
                spare=3,
            ),
        ],
        rows=layers,
        style=lambda _: None,
        common=common,
    )
