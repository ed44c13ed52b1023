"""Speed, temperature, clock and throttling over sustained runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.report.cell_names import naming
from harness.report.charts.chart import Chart, series_colour, specification
from harness.report.result import Row
from harness.report.table import figure

_HEIGHT = 130
_FIGURES = {"fps": ("FPS", 1.0), "celsius": ("°C", 1.0), "clock": ("clock, % of the highest", 100.0)}


def sustained(rows: Sequence[Row]) -> Chart | None:
    """A drawing for each known figure; None: there was no sustained run."""
    import altair as alt

    known = [row for row in rows if row.time_series]
    if not known:
        return None
    called = naming(rows)
    values: list[dict[str, Any]] = [
        {"cell": called(row), "minutes": round(point.seconds / 60, 3)}
        | {
            name: float(f"{unit * value:.4g}")
            for name, (_, unit) in _FIGURES.items()
            if (value := getattr(point, name)) is not None
        }
        | ({"throttled": "yes"} if point.throttled else {})
        for row in known
        for point in row.time_series or ()
    ]
    present = {name: title for name, (title, _) in _FIGURES.items() if any(name in value for value in values)}
    marked = any("throttled" in value for value in values)
    charts = []
    for name, title in present.items():
        encoded = alt.Chart().encode(
            x=alt.X("minutes:Q", title="minutes"),
            y=alt.Y(f"{name}:Q", title=title, scale=alt.Scale(zero=name == "fps")),
            color=series_colour("cell", ""),
            tooltip=[
                "cell:N",
                "minutes:Q",
                *(alt.Tooltip(f"{each}:Q", title=present[each]) for each in present),
                *(["throttled:N"] if marked else []),
            ],
        )
        chart = encoded.mark_line(point=True, aria=False)
        if marked:
            crosses = encoded.transform_filter("datum.throttled")
            chart = chart + crosses.mark_point(shape="cross", size=120, strokeWidth=2, aria=False)
        charts.append(chart)
    throttled = [called(row) for row in known if row.throttled]
    what = f" The board throttled in: {', '.join(throttled)}." if throttled else ""
    what += " Crosses are where it did." if marked else ""
    return Chart(
        caption=f"{known[0].model}: over sustained runs.{what}",
        specifications=[specification(chart, values, _HEIGHT) for chart in charts],
        headings=["cell", "minutes", *present.values(), *(["throttled"] if marked else [])],
        rows=[
            [
                value["cell"],
                figure(value["minutes"]),
                *(figure(value.get(name)) for name in present),
                *([value.get("throttled", "")] if marked else []),
            ]
            for value in values
        ],
    )
