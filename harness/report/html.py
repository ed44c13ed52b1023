"""A report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from harness.report.charts.bundle import script
from harness.report.charts.chart import charts_available
from harness.report.charts.figure import START, figure
from harness.report.charts.section import comparisons, details, fronts
from harness.report.tables import Table, tables
from harness.report.verdict import Verdict, verdicts
from harness.text import one_paragraph

if TYPE_CHECKING:
    from harness.report.result import Report, Row

# The page loads nothing: its browser refuses every request. Vega compiles its expressions to functions.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "img-src data: blob:"
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
body { background: #fff; color: #222; overflow-wrap: break-word; }
h2 { margin: 2.5rem 0 .5rem; }
.verdict { border: 1px solid #8886; border-radius: 6px; margin: 1rem 0; padding: .2rem 1rem; }
.verdict h2 { font-size: 115%; margin: .5rem 0 0; }
.verdict .summary { font-size: 115%; margin: .3rem 0; }
.wide { overflow-x: auto; }
section > .wide { content-visibility: auto; contain-intrinsic-height: auto calc(4rem + var(--rows) * 32px); }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; text-align: right; overflow-wrap: normal; }
th { vertical-align: bottom; }
td { white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
.text { text-align: left; }
.optimal { font-weight: 600; }
.failed { color: #b00020; }
.skipped, .pending { color: #666; }
.common { margin: 0; }
.emulated { border-left: 4px solid #d08700; padding-left: 1rem; }
.notes { color: #555; font-size: 90%; }
code { overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; }
figcaption, summary { color: #555; font-size: 90%; max-width: 60rem; }
.drawing { width: 100%; min-height: 120px; }
.drawing :focus-visible { outline: 2px solid; }
@media (prefers-color-scheme: dark) {
  body { background: #111; color: #ddd; }
  .notes, figcaption, summary, .skipped, .pending { color: #aaa; }
  .failed { color: #ff8a80; }
}
@media print {
  body { max-width: none; background: #fff; color: #000; }
  figure, .verdict, tr { break-inside: avoid; }
  .wide, section > .wide { overflow: visible; content-visibility: visible; }
  td { white-space: normal; }
}
"""


def html(report: Report) -> str:
    """The report as a page: verdicts, tables with their charts, and the conditions of the run."""
    title = _text(report.sweep)
    draws = charts_available()
    hint = (
        ""
        if draws
        else "<p class=\"notes\">For charts, install the extra: pip install 'harness[report]'</p>\n"
    )
    sections = "\n".join(
        _section(table, f"table{number}", draws) for number, table in enumerate(tables(report))
    )
    if draws and (charts := comparisons(report.rows)):
        sections += f"<section><h2>Boards and runtimes</h2>\n{''.join(map(figure, charts))}</section>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
        + "\n".join(map(_verdict, verdicts(report)))
        + hint
        + sections
        + _facts("Machine", report.environment)
        + _facts("Input files (SHA-256)", report.artifacts)
        + "</main>\n"
        + (f"<script>{script()}</script>\n" if START in sections else "")
        + "</body></html>\n"
    )


def _facts(title: str, facts: Mapping[str, str]) -> str:
    items = "".join(f"<li>{_text(name)}: {_text(value)}</li>" for name, value in facts.items())
    return f'\n<h2>{title}</h2>\n<ul class="notes">{items}</ul>\n' if facts else ""


def _verdict(verdict: Verdict) -> str:
    basis = "".join(f"<li>{_text(sentence)}</li>" for sentence in verdict.basis)
    kind = "emulated" if verdict.emulated else "measured"
    return (
        f'<section class="verdict {kind}"><h2>{_text(verdict.place)}</h2>\n'
        f'<p class="summary">{_text(verdict.summary)}</p>\n<ul class="notes">{basis}</ul>\n'
        f'<p class="notes">{_text(verdict.next_step)}: '
        f"<code>{_text(verdict.next_command)}</code></p></section>"
    )


def _section(table: Table, name: str, draws: bool) -> str:
    emulated = any(row.emulated for row in table.rows)
    before, behind = (
        "".join(map(figure, charts(table.rows) if draws else [])) for charts in (fronts, details)
    )
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    again = _commands([row for row in table.rows if row.details])
    common = f'<p class="common">{_text(table.common)}</p>\n' if table.common else ""
    return (
        f'<section class="{"emulated" if emulated else "measured"}">'
        f'<h2 id="{name}">{_text(table.title)}</h2>\n{common}'
        f'{before}{_table(table, name)}\n<ul class="notes">{notes}</ul>\n{behind}{again}</section>'
    )


def _commands(rows: Sequence[Row]) -> str:
    """The commands that measure the cells of the charts again."""
    items = "".join(
        f"<li>{_text(row.name_on_target)}: <code>{_text(row.rerun_command)}</code></li>" for row in rows
    )
    summary = "Commands that measure single cells again"
    return f'\n<details class="notes"><summary>{summary}</summary><ul>{items}</ul></details>' if rows else ""


def _table(table: Table, name: str) -> str:
    head = "".join(_cell("th", column.heading, column.number) for column in table.columns)
    body = "\n".join(
        f'<tr class="{"optimal" if row.pareto_optimal else _text(row.status)}">'
        + "".join(
            _cell("td", text, column.number)
            for column, text in zip(table.columns, table.cells(row), strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    # A region that scrolls must be reachable by the keyboard.
    return (
        f'<div class="wide" style="--rows:{len(table.rows)}" tabindex="0" role="region" '
        f'aria-labelledby="{name}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _cell(tag: str, text: str, number: bool) -> str:
    kind = "" if number else ' class="text"'
    return f"<{tag}{kind}>{_text(text)}</{tag}>"


def _text(text: str) -> str:
    return escape(one_paragraph(text))
