"""A map of precisions: the layers of each cell one after another, as wide as their times."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.charts.chart import Chart, left_out, precision_colour, specification
from harness.report.charts.layer_values import layer_table, layer_tooltip, layer_values, with_layers
from harness.report.result import Row

_ROW = 26  # pixels
_THINNEST = 0.001  # of a cell's time: thinner layers are not drawn


def precision_map(rows: Sequence[Row]) -> Chart | None:
    """None: no layers are known."""
    import altair as alt

    known = with_layers(rows)
    if not known:
        return None
    values = []
    for row in known:
        layers = layer_values(row, rows)
        least = _THINNEST * max((layer["end"] for layer in layers), default=0.0)
        values += [layer for layer in layers if layer["ms"] >= least]
    time = "predicted ms" if known[0].emulated else "ms"
    converts = "datum.converts > 0"
    chart = (
        alt.Chart()
        .mark_rect(stroke="currentColor", aria=False)
        .encode(
            x=alt.X("begin:Q", title=time),
            x2="end:Q",
            y=alt.Y("cell:N", title=None, sort=None),
            color=precision_colour("executed in"),
            strokeWidth=alt.condition(converts, alt.value(2), alt.value(0.3)),
            tooltip=layer_tooltip(
                time, alt.Tooltip("converts:Q", title="of which conversion, %", format=".0f")
            ),
        )
    )
    headings, body = layer_table(known, rows)
    what = "Predicted from emulated runs. " if known[0].emulated else ""
    return Chart(
        caption=f"{known[0].model}: layers and their precisions. {what}Each bar is a cell, each part a "
        "layer, as wide as its time. A thick border marks a layer that converts its input from another "
        f"precision.{left_out(known, rows)}",
        specifications=[specification(chart, values, _ROW * len(known))],
        headings=headings,
        rows=body,
    )
