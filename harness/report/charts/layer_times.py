"""The time of each layer in fp32 and in the fastest cell of the front; if predicted, with its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.prediction.parts import PARTS
from harness.report.cell_names import cell_name
from harness.report.charts.chart import Chart, series_colour, specification
from harness.report.charts.layer_values import (
    UNDIVIDED,
    is_divided,
    layer_table,
    layer_tooltip,
    layer_values,
    with_layers,
)
from harness.report.details import compared
from harness.report.result import Row

_HEIGHT = 200
_THINNEST = 0.001  # of the slowest layer
_MEANING = (
    " Its parts: compute, the multiply-adds; activation, from sums to outputs; conversion, between "
    "precisions and layouts; memory, the traffic behind the last cache. The largest part bounds the layer. "
    "Layers without multiply-adds are not divided."
)


def layer_times(rows: Sequence[Row]) -> Chart | None:
    """None: there are no two cells with layers to compare."""
    known = with_layers(compared(rows))
    if len(known) < 2:
        return None
    divided = any(map(is_divided, known))
    cells = [layer_values(row, rows, parts=divided) for row in known]
    slowest = max(value["ms"] for values in cells for value in values)
    seen = {value["layer"] for values in cells for value in values if value["ms"] > _THINNEST * slowest}
    cells = [[value for value in values if value["layer"] in seen] for values in cells]
    if divided:
        drawings = [
            _in_parts(cell_name(row, rows), values, slowest) for row, values in zip(known, cells, strict=True)
        ]
    else:
        time = "predicted ms" if known[0].emulated else "ms"
        drawings = [_side_by_side([value for values in cells for value in values], time)]
    headings, body = layer_table(known, rows, bounds=divided)
    return Chart(
        caption=f"{known[0].model}: {'predicted ' if divided else ''}time of each layer in fp32 and in the "
        f"fastest cell of the front.{_MEANING if divided else ''} Layers without a visible time are left out "
        "of the drawing.",
        specifications=drawings,
        headings=headings,
        rows=body,
    )


def _side_by_side(values: Sequence[dict[str, Any]], time: str) -> dict[str, Any]:
    """The cells beside each other, layer by layer."""
    import altair as alt

    chart = (
        alt.Chart()
        .mark_bar(aria=False)
        .encode(
            x=_layers(),
            xOffset=alt.XOffset("cell:N", sort=None),
            y=alt.Y("ms:Q", title=time),
            color=series_colour("cell", ""),
            tooltip=layer_tooltip(time),
        )
    )
    return specification(chart, values, _HEIGHT)


def _in_parts(cell: str, values: Sequence[dict[str, Any]], slowest: float) -> dict[str, Any]:
    """The layers of one cell, each as the sum of its parts; `slowest` is the axis' end in milliseconds."""
    import altair as alt

    kinds = [*PARTS, UNDIVIDED]
    parts = [alt.Tooltip(f"{part}:Q", title=f"{part} ms") for part in PARTS]
    chart = (
        alt.Chart(title=cell)
        .transform_fold(kinds, as_=["part", "part_ms"])
        .transform_filter("isValid(datum.part_ms)")
        .mark_bar(aria=False)
        .encode(
            x=_layers(),
            y=alt.Y("part_ms:Q", title="predicted ms", scale=alt.Scale(domain=[0, slowest])),
            color=series_colour("part", "", kinds),
            tooltip=layer_tooltip("predicted ms", "bound:N", *parts),
        )
    )
    return specification(chart, values, _HEIGHT)


def _layers() -> Any:
    import altair as alt

    return alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0))
