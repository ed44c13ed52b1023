"""The distribution of the times of measured cells, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.measure.statistics import percentile
from harness.report.cell_names import naming
from harness.report.charts.chart import Chart, left_out, series_colour, specification
from harness.report.result import Row
from harness.report.table import figure

_PERCENTS = (5, 25, 50, 75, 95)
_ROUND = 12  # pixels
_MOST_ROUNDS = 10


def latency(rows: Sequence[Row]) -> Chart | None:
    """None: no samples are known, as of emulated cells."""
    import altair as alt

    known = [row for row in rows if row.details and row.details.rounds]
    name = naming(rows)
    values = [value for row in known for value in _values(row, name(row))]
    if not values:
        return None
    x = alt.X("p5:Q", title="ms", scale=alt.Scale(type="log", nice=False))
    base = alt.Chart().encode(
        y=alt.Y("cell:N", title=None, sort=None),
        yOffset="round:O",
        color=series_colour("round", "round"),
        tooltip=["cell:N", "round:O", *(f"p{percent}:Q" for percent in _PERCENTS), "samples:Q"],
    )
    chart = alt.layer(
        base.mark_rule(aria=False).encode(x=x, x2="p95:Q"),
        base.mark_bar(aria=False, height=6).encode(x=alt.X("p25:Q", title="ms"), x2="p75:Q"),
        base.mark_tick(aria=False, thickness=2, height=10, color="currentColor").encode(x="p50:Q"),
    )
    rounds = max(value["round"] for value in values)
    return Chart(
        caption=f"{known[0].model}: times of the inferences, round by round; each round is a fresh process. "
        "Lines are from p5 to p95, bars from p25 to p75, and the tick is the median." + left_out(known, rows),
        specifications=[specification(chart, values, (_ROUND * rounds + 8) * len(known))],
        headings=["cell", "round", *(f"p{percent} ms" for percent in _PERCENTS), "samples"],
        rows=[
            [
                value["cell"],
                str(value["round"]),
                *(figure(value[f"p{percent}"]) for percent in _PERCENTS),
                str(value["samples"]),
            ]
            for value in values
        ],
    )


def _values(row: Row, name: str) -> list[dict[str, Any]]:
    rounds = list(row.details.rounds if row.details else ())[:_MOST_ROUNDS]
    return [
        {"cell": name, "round": number, "samples": len(samples)}
        | {f"p{percent}": float(f"{percentile(samples, percent) / 1e6:.4g}") for percent in _PERCENTS}
        for number, samples in enumerate(rounds, start=1)
        if samples
    ]
