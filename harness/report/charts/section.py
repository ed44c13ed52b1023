"""The charts of a section: one board, its models one after another."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.charts.chart import Chart
from harness.report.charts.front import front_chart
from harness.report.result import Row


def section_charts(rows: Sequence[Row]) -> list[Chart]:
    """The charts of these cells of one board. Steps have none: their order is what counts."""
    done: dict[str, list[Row]] = {}
    for row in rows:
        if row.status == "done" and not row.step:
            done.setdefault(row.model, []).append(row)
    return [chart for cells in done.values() if (chart := front_chart(cells))]
