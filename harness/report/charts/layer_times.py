"""The time of each layer in fp32 and in the fastest cell of the front."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.charts.chart import Chart, series_colour, specification
from harness.report.charts.layer_values import layer_table, layer_tooltip, layer_values, with_layers
from harness.report.details import compared
from harness.report.result import Row

_HEIGHT = 200
_THINNEST = 0.001  # of the slowest layer


def layer_times(rows: Sequence[Row]) -> Chart | None:
    """None: there are no two cells with layers to compare."""
    import altair as alt

    known = with_layers(compared(rows))
    if len(known) < 2:
        return None
    values = [value for row in known for value in layer_values(row, rows)]
    least = _THINNEST * max(value["ms"] for value in values)
    seen = {value["layer"] for value in values if value["ms"] > least}
    values = [value for value in values if value["layer"] in seen]
    time = "predicted ms" if known[0].emulated else "ms"
    chart = (
        alt.Chart()
        .mark_bar(aria=False)
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("cell:N", sort=None),
            y=alt.Y("ms:Q", title=time),
            color=series_colour("cell", ""),
            tooltip=layer_tooltip(time),
        )
    )
    headings, body = layer_table(known, rows)
    return Chart(
        caption=f"{known[0].model}: time of each layer in fp32 and in the fastest cell of the front. Layers "
        "without a visible time are left out of the drawing.",
        specifications=[specification(chart, values, _HEIGHT)],
        headings=headings,
        rows=body,
    )
