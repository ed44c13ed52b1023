"""A history as one self-contained HTML page, with a chart of each cell."""

from __future__ import annotations

import math
from html import escape

from harness.measure.steps import levels
from harness.report.compare.comparison import percent
from harness.report.history.history import History, date, described, verdict
from harness.report.history.series import Series, Step
from harness.report.history.table import UNITS, Table, name, number, tables, value_range
from harness.text import one_paragraph

_WIDTH, _HEIGHT, _MARGIN = 640, 120, 8
_STYLE = """
:root { color-scheme: light dark; --text: #222; --faint: #666; --line: #0a58ca; --slower: #b00020;
  --faster: #2e7d32; --ground: #fff; }
@media (prefers-color-scheme: dark) { :root { --text: #ddd; --faint: #999; --line: #6ea8fe; --slower: #ff6b81;
  --faster: #81c784; --ground: #111; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem;
  color: var(--text); background: var(--ground); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; text-align: left; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.notes, figcaption { color: var(--faint); font-size: 90%; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1rem; }
figure { margin: 0; }
svg { width: 100%; height: auto; }
.level { stroke: var(--line); stroke-width: 2; fill: none; }
.points circle { fill: var(--faint); }
.slower { stroke: var(--slower); fill: var(--slower); }
.faster { stroke: var(--faster); fill: var(--faster); }
line { stroke-dasharray: 4 3; }
text { font-size: 14px; stroke: none; }
"""


def html(found: History) -> str:
    """The page."""
    runs = "".join(
        f"<li>{_text(run.name)}, {date(run)}{f', commit {_text(run.commit)}' if run.commit else ''}</li>"
        for run in found.runs
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>History</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n<h1>History</h1>\n<p>{_text(verdict(found))}</p>\n"
        + "\n".join(_section(found, table) for table in tables(found))
        + f'\n<h2>Runs</h2>\n<ol class="notes" start="0">{runs}</ol>\n</body></html>\n'
    )


def _section(found: History, table: Table) -> str:
    kinds = ['class="number"' if column.number else "" for column in table.columns]
    head = "".join(
        f"<th {kind}>{_text(column.heading)}</th>" for column, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<td {kind}>{_text(text)}</td>" for kind, text in zip(kinds, table.cells(series), strict=True)
        )
        + "</tr>"
        for series in table.rows
    )
    charts = "\n".join(f"<figure>{_caption(series)}{_chart(found, series)}</figure>" for series in table.rows)
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    return (
        f'<section><h2>{_text(table.title)}</h2>\n<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f'<tbody>\n{rows}\n</tbody></table></div>\n<ul class="notes">{notes}</ul>\n'
        f'<div class="charts">{charts}</div></section>'
    )


def _caption(series: Series) -> str:
    ends = [number(series, end) for end in value_range([point.value for point in series.points])]
    unit = UNITS[series.figure]
    return f"<figcaption>{_text(name(series))}: {ends[0]} to {ends[1]} {unit}</figcaption>"


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
        f"{_text(found.runs[point.run].name)}: {number(series, point.value)}</title></circle>"
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
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_text(name(series))}">'
        f'<path class="level" d="{lines}"/><g class="points">{points}</g>{marks}</svg>'
    )


def _mark(found: History, series: Series, step: Step, place: str) -> str:
    kind, height = ("slower", _HEIGHT - 4) if step.ratio > 1 else ("faster", 14)  # where no points are
    return (
        f'<g class="{kind}"><title>{_text(described(found, series, step))}</title>'
        f'<line x1="{place}" x2="{place}" y1="0" y2="{_HEIGHT}"/>'
        f'<text x="{place}" y="{height}">{_text(percent(step.ratio))}</text></g>'
    )


def _text(text: str) -> str:
    return escape(one_paragraph(text))
