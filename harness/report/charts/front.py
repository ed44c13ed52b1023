"""Speed against accuracy: the cells of a board and a model, and the front to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.config.darknet_cfg import PRECISIONS
from harness.report.cell_names import naming
from harness.report.charts.chart import OTHER, Chart, precision_colour, specification
from harness.report.choice import front, memory_of, speed_interval_of
from harness.report.columns import NAMES_OF_METRICS
from harness.report.comparison import speed_of
from harness.report.pareto import MIB
from harness.report.result import Row

_HEIGHT = 320  # pixels
_PADDING = 20  # so that marks do not touch the axes
_LABEL = 160


def front_chart(rows: Sequence[Row]) -> Chart | None:
    """None: no cell has both figures."""
    import altair as alt

    known = [row for row in rows if speed_of(row) and row.accuracy is not None]
    if not known:
        return None
    first = known[0]
    speed = "predicted FPS" if first.emulated else "FPS"
    metric = f"{NAMES_OF_METRICS.get(first.accuracy_metric or '', 'accuracy')} %"
    x = alt.X("fps:Q", title=speed, scale=alt.Scale(zero=False, padding=_PADDING))
    y = alt.Y("accuracy:Q", title=metric, scale=alt.Scale(zero=False, padding=_PADDING))
    points, name = set(map(id, front(known))), naming(known)
    values = [_values(row, name(row)) | ({"front": True} if id(row) in points else {}) for row in known]
    chosen = alt.Chart().transform_filter("datum.front")
    rule = alt.Chart().mark_rule(opacity=0.45, aria=False)
    intervals = {
        "low": rule.encode(x=alt.X("low:Q", title=speed), x2="high:Q", y=y),
        "least": rule.encode(x=x, y=alt.Y("least:Q", title=metric), y2="most:Q"),
    }
    layers = [
        # Vega warns of a field that no value has.
        *(layer for name, layer in intervals.items() if any(value[name] is not None for value in values)),
        chosen.mark_line(strokeDash=[4, 3], color="gray", aria=False).encode(x=x, y=y, order="fps:Q"),
        chosen.mark_text(align="left", dx=8, dy=-10, limit=_LABEL, fontWeight="bold", aria=False).encode(
            x=x, y=y, text="cell:N"
        ),
        alt.Chart()
        .mark_point(filled=not first.emulated, opacity=0.9, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=precision_colour("policy"),
            size=alt.Size("memory:Q", title="memory, MiB", scale=alt.Scale(range=[40, 400]), legend=None),
            tooltip=_tooltip(speed, metric),
            **_shape(known),
        ),
    ]
    what = "Predicted from emulated runs, not measured on a board. " if first.emulated else ""
    return Chart(
        caption=f"{first.model}: speed against accuracy. {what}The line joins the front of the verdict; "
        "larger marks need more memory. Horizontal lines are intervals of the speed, vertical ones of the "
        "change in accuracy against fp32. The table below has the data.",
        specifications=[specification(alt.layer(*layers), values, _HEIGHT)],
    )


def _shape(rows: Sequence[Row]) -> dict[str, Any]:
    """Runtimes differ in shape, if there are several."""
    import altair as alt

    return {"shape": alt.Shape("runtime:N")} if len({row.runtime for row in rows}) > 1 else {}


def _tooltip(speed: str, metric: str) -> list[Any]:
    import altair as alt

    titles = {"cell": "cell", "fps": speed, "low": "from", "high": "to", "accuracy": metric}
    titles |= {"change": "points against fp32", "memory": "memory, MiB"}
    numbers = {"fps": ".4~g", "low": ".4~g", "high": ".4~g", "accuracy": ".2f", "memory": ".2f"}
    return [
        alt.Tooltip(
            f"{name}:{'Q' if name in numbers else 'N'}", title=title, format=numbers.get(name, alt.Undefined)
        )
        for name, title in titles.items()
    ]


def _values(row: Row, name: str) -> dict[str, Any]:
    speeds, changes = speed_interval_of(row), row.accuracy_change_interval
    accuracy = 100 * (row.accuracy or 0.0)
    reach = 50 * (changes[1] - changes[0]) if changes else 0.0
    memory = memory_of(row)
    change = "unknown" if row.accuracy_change is None else f"{100 * row.accuracy_change + 0:+.2f}"
    return {
        "cell": name,
        "precision": row.policy if row.policy in PRECISIONS else OTHER,
        "runtime": row.runtime,
        "fps": _short(speed_of(row)),
        "low": speeds and _short(speeds[0]),
        "high": speeds and _short(speeds[1]),
        "accuracy": round(accuracy, 3),
        "least": round(accuracy - reach, 3) if changes else None,
        "most": round(accuracy + reach, 3) if changes else None,
        "change": f"{change} ± {reach:.2f}" if changes else change,
        "memory": None if memory is None else round(memory / MIB, 2),
    }


def _short(value: float | None) -> float:
    return float(f"{value or 0.0:.5g}")
