"""The boards and runtimes of a sweep, compared: the fastest cell of each policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.report.charts.chart import Chart, series_colour, specification
from harness.report.comparison import speed_of
from harness.report.result import Row
from harness.report.table import figure

_ROW = 24  # pixels
_SPACE = 1.3  # between the extreme points and the ends of the axis


def boards_chart(rows: Sequence[Row]) -> Chart | None:
    """The cells of one model, a drawing for each board; None: there is one board and one runtime."""
    import altair as alt

    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = row.target, row.emulated, row.policy, row.runtime
        if key not in best or (speed_of(row) or 0) > (speed_of(best[key]) or 0):
            best[key] = row
    known = [_values(row) for row in best.values() if speed_of(row)]
    boards = list(dict.fromkeys(value["board"] for value in known))
    if len(boards) < 2 and len({value["runtime"] for value in known}) < 2:
        return None
    speeds = [value["fps"] for value in known]
    domain = [min(speeds) / _SPACE, max(speeds) * _SPACE]
    charts = []
    for board in boards:
        values = [value for value in known if value["board"] == board]
        predicted = values[0]["kind"] == "predicted"
        chart = (
            alt.Chart(title=board)
            .mark_point(filled=not predicted, size=90, strokeWidth=2)
            .encode(
                x=alt.X(
                    "fps:Q",
                    title="predicted FPS" if predicted else "FPS",
                    scale=alt.Scale(type="log", domain=domain, nice=False),
                ),
                y=alt.Y("policy:N", title=None, sort=None),
                color=series_colour("runtime", "runtime"),
                shape=alt.Shape("runtime:N", sort=None),
                tooltip=["board:N", "kind:N", "policy:N", "runtime:N", "threads:Q", "fps:Q"],
            )
        )
        charts.append(specification(chart, values, _ROW * len({value["policy"] for value in values})))
    return Chart(
        caption=f"{rows[0].model}: the fastest cell of each policy and runtime on each board, on one "
        "logarithmic scale. Hollow marks are predicted from emulated runs, not measured on a board.",
        specifications=charts,
        headings=["board", "policy", "runtime", "threads", "FPS", "kind"],
        rows=[
            [
                *(value[name] for name in ("board", "policy", "runtime")),
                str(value["threads"]),
                figure(value["fps"]),
                value["kind"],
            ]
            for value in known
        ],
    )


def _values(row: Row) -> dict[str, Any]:
    return {
        "board": f"{row.target} (predicted)" if row.emulated else row.target,
        "kind": "predicted" if row.emulated else "measured",
        "policy": row.policy,
        "runtime": row.runtime,
        "threads": row.threads,
        "fps": float(f"{speed_of(row) or 0.0:.4g}"),
    }
