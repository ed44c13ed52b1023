"""The charts of the sections of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.report.charts.boards import boards_chart
from harness.report.charts.chart import Chart
from harness.report.charts.front import front_chart
from harness.report.charts.latency import latency
from harness.report.charts.layer_times import layer_times
from harness.report.charts.precision_map import precision_map
from harness.report.charts.steps import steps_chart
from harness.report.charts.sustained import sustained
from harness.report.result import Row

_Draws = Callable[[Sequence[Row]], Chart | None]
_DETAILS = (precision_map, layer_times, latency, sustained)


def fronts(rows: Sequence[Row]) -> list[Chart]:
    """Speed against accuracy of each model, for the cells of one board."""
    return _charts(rows, [front_chart])


def steps(rows: Sequence[Row]) -> list[Chart]:
    """The gain of each step, for the cells of one series."""
    chart = steps_chart([row for row in rows if row.step])
    return [chart] if chart else []


def details(rows: Sequence[Row]) -> list[Chart]:
    """Layers, times and sustained runs of each model, for the cells of one board."""
    return _charts(rows, _DETAILS)


def comparisons(rows: Sequence[Row]) -> list[Chart]:
    """Boards and runtimes compared, for all cells."""
    return _charts(rows, [boards_chart])


def _charts(rows: Sequence[Row], draw: Sequence[_Draws]) -> list[Chart]:
    """Of each model. Steps have a chart of their own, which keeps their order."""
    models: dict[str, list[Row]] = {}
    for row in rows:
        if row.status == "done" and not row.step:
            models.setdefault(row.model, []).append(row)
    return [chart for cells in models.values() for each in draw if (chart := each(cells))]
