"""The gain of each step of a series, such as that of cfg/sweeps/ablation.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.report.charts.chart import Chart, series_colour, specification
from harness.report.comparison import speed_of
from harness.report.result import Row
from harness.report.table import figure

_ROW = 24  # pixels
_SPACE = 1.1  # between the extreme bars and the ends of the axis


def steps_chart(rows: Sequence[Row]) -> Chart | None:
    """Bars from the speed of the step before to that of each step, in their order; None: fewer than two steps
    have a speed."""
    import altair as alt

    values = list(_values(rows))
    if len(values) < 2:
        return None
    ends = [value[end] for value in values for end in ("before", "times")]
    scale = alt.Scale(type="log", domain=[min(ends) / _SPACE, max(ends) * _SPACE], nice=False)
    speed = "predicted FPS" if rows[0].emulated else "FPS"
    y = alt.Y("step:N", title=None, sort=None)
    x = alt.X("times:Q", title=f"{speed} as a multiple of the first step's", scale=scale)
    tooltip = [
        "step:N",
        "gain:N",
        alt.Tooltip("times:Q", title="over the first"),
        alt.Tooltip("fps:Q", title=speed),
    ]
    bars = (
        alt.Chart()
        .mark_bar()
        .encode(x=x, x2="before:Q", y=y, color=series_colour("change", ""), tooltip=tooltip)
    )
    # A step that changes nothing has no width.
    ticks = alt.Chart().mark_tick(thickness=3, aria=False).encode(x=x, y=y, color=series_colour("change", ""))
    gains = alt.Chart().mark_text(align="left", dx=8, aria=False).encode(x=x, y=y, text="gain:N")
    kind = "predicted, not measured on a board" if rows[0].emulated else "measured"
    return Chart(
        caption=f"{rows[0].model} {rows[0].policy}: the speed after each step, {kind}. A bar begins at the "
        "speed of the step before; the figure beside it is the gain over that.",
        specifications=[specification(alt.layer(bars, ticks, gains), values, _ROW * len(values))],
    )


def _values(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Of the steps with a speed. Each is compared with the last one before it that has one."""
    first = before = None
    for row in rows:
        speed = speed_of(row)
        if row.status != "done" or not speed:
            continue
        first, before = first or speed, before or speed
        gain = speed / before
        yield {
            "step": row.step,
            "fps": float(f"{speed:.4g}"),
            "times": float(f"{speed / first:.4g}"),
            "before": float(f"{before / first:.4g}"),
            "gain": f"{figure(gain)}x",
            "change": "faster" if gain >= 1 else "slower",
        }
        before = speed
