"""A report as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from harness.report.tables import Table, tables
from harness.report.time_graph import graph
from harness.report.verdict import Verdict, verdicts
from harness.text import one_paragraph

if TYPE_CHECKING:
    from harness.report.result import Report

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #8884; text-align: left; }
th { vertical-align: bottom; }
td { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.optimal { font-weight: 600; }
.failed { color: #b00020; }
.skipped, .pending { color: #777; }
.common { margin: 0; }
.emulated { border-left: 4px solid #d08700; padding-left: 1rem; }
.summary { font-size: 115%; font-weight: 600; }
code { overflow-wrap: anywhere; }
.notes { color: #666; font-size: 90%; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } .notes { color: #999; } }
"""


def html(report: Report) -> str:
    """The report as a page."""
    title = _text(report.sweep)
    facts = "".join(f"<li>{_text(name)}: {_text(value)}</li>" for name, value in report.environment.items())
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        + "\n".join(map(_verdict, verdicts(report)))
        + "\n".join(map(_table, tables(report)))
        + f'\n<h2>Machine</h2>\n<ul class="notes">{facts}</ul>\n</body></html>\n'
    )


def _verdict(verdict: Verdict) -> str:
    basis = "".join(f"<li>{_text(sentence)}</li>" for sentence in verdict.basis)
    kind = "emulated" if verdict.emulated else "measured"
    return (
        f'<section class="verdict {kind}"><h2>{_text(verdict.place)}</h2>\n'
        f'<p class="summary">{_text(verdict.summary)}</p>\n<ul class="notes">{basis}</ul>\n'
        f'<p class="notes">{_text(verdict.next_step)}: '
        f"<code>{_text(verdict.next_command)}</code></p></section>"
    )


def _table(table: Table) -> str:
    emulated = any(row.emulated for row in table.rows)
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
    graphs = "".join(graph(row) for row in table.rows if row.time_series)
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    common = f'<p class="common">{_text(table.common)}</p>\n' if table.common else ""
    return (
        f'<section class="{"emulated" if emulated else "measured"}"><h2>{_text(table.title)}</h2>\n{common}'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n'
        f'{graphs}<ul class="notes">{notes}</ul></section>'
    )


def _cell(tag: str, text: str, number: bool) -> str:
    kind = ' class="number"' if number else ""
    return f"<{tag}{kind}>{_text(text)}</{tag}>"


def _text(text: str) -> str:
    return escape(one_paragraph(text))
