"""A history as one self-contained HTML page, with a chart of each cell."""

from __future__ import annotations

import math

from harness.measure.steps import levels
from harness.report.compare.comparison import percent
from harness.report.history.history import History, date, described, verdict
from harness.report.history.series import Series, Step
from harness.report.history.table import UNITS, Table, name, number, tables, value_range
from harness.report.page import grid, notes, page, text

_WIDTH, _HEIGHT, _MARGIN = 640, 120, 8
_STYLE = """
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); gap: 1rem; }
.charts figure { margin: 0; }
.charts svg { display: block; width: 100%; height: auto; }
.charts { --faint: #666; --line: #0a58ca; --slower: #b00020; --faster: #2e7d32; }
@media (prefers-color-scheme: dark) {
  .charts { --faint: #999; --line: #6ea8fe; --slower: #ff6b81; --faster: #81c784; }
}
.level { stroke: var(--line); stroke-width: 2; fill: none; }
.points circle { fill: var(--faint); }
.slower { stroke: var(--slower); fill: var(--slower); }
.faster { stroke: var(--faster); fill: var(--faster); }
.charts line { stroke-dasharray: 4 3; }
.charts text { font-size: 14px; stroke: none; }
"""


def html(found: History) -> str:
    """The page."""
    runs = "".join(
        f"<li>{text(run.name)}, {date(run)}{f', commit {text(run.commit)}' if run.commit else ''}</li>"
        for run in found.runs
    )
    sections = (_section(found, table, f"table{number}") for number, table in enumerate(tables(found)))
    return page(
        "History",
        f'<p class="summary">{text(verdict(found))}</p>\n'
        + "\n".join(sections)
        + f'\n<h2>Runs</h2>\n<ol class="notes" start="0">{runs}</ol>\n',
        style=_STYLE,
    )


def _section(found: History, table: Table, place: str) -> str:
    cells = grid(
        place,
        [(column.heading, column.number) for column in table.columns],
        [("done", table.cells(series)) for series in table.rows],
    )
    charts = "\n".join(f"<figure>{_caption(series)}{_chart(found, series)}</figure>" for series in table.rows)
    return (
        f'<section><h2 id="{place}">{text(table.title)}</h2>\n{cells}\n{notes(table.notes)}'
        f'<div class="charts">{charts}</div></section>'
    )


def _caption(series: Series) -> str:
    ends = [number(series, end) for end in value_range([point.value for point in series.points])]
    unit = UNITS[series.figure]
    return f"<figcaption>{text(name(series))}: {ends[0]} to {ends[1]} {unit}</figcaption>"


def _chart(found: History, series: Series) -> str:
    """Points over the history's runs, and a line at each level."""
    values = [point.value for point in series.points]
    low, high = value_range(values)
    width = (_WIDTH - 2 * _MARGIN) / max(len(found.runs) - 1, 1)

    def x(run: float) -> str:
        return f"{_MARGIN + width * run:.1f}"

    def y(value: float) -> str:
        return f"{_HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (value - low) / (high - low):.1f}"

    points = "".join(
        f'<circle cx="{x(point.run)}" cy="{y(point.value)}" r="3"><title>'
        f"{text(found.runs[point.run].name)}: {number(series, point.value)}</title></circle>"
        for point in series.points
    )
    places = [step.point for step in series.steps]
    heights = levels([math.log(value) for value in values], places)
    lines = "".join(
        f"{'L' if index else 'M'}{x(series.points[begin].run)} {y(height)}H{x(series.points[end - 1].run)}"
        for index, (begin, end, height) in enumerate(
            zip([0, *places], [*places, len(values)], map(math.exp, heights), strict=True)
        )
    )
    marks = "".join(
        _mark(found, series, step, x(series.points[step.point].run - 0.5)) for step in series.steps
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(name(series))}">'
        f'<path class="level" d="{lines}"/><g class="points">{points}</g>{marks}</svg>'
    )


def _mark(found: History, series: Series, step: Step, place: str) -> str:
    kind, height = ("slower", _HEIGHT - 4) if step.ratio > 1 else ("faster", 14)  # where no points are
    return (
        f'<g class="{kind}"><title>{text(described(found, series, step))}</title>'
        f'<line x1="{place}" x2="{place}" y1="0" y2="{_HEIGHT}"/>'
        f'<text x="{place}" y="{height}">{text(percent(step.ratio))}</text></g>'
    )
