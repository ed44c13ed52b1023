"""A report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from harness.report.box_figure import STYLE as BOXES_STYLE
from harness.report.box_figure import box_figure
from harness.report.charts.chart import charts_available
from harness.report.charts.figure import figure
from harness.report.charts.section import comparisons, details, fronts, steps
from harness.report.page import NO_CHARTS, grid, notes, page, text
from harness.report.tables import Table, tables
from harness.report.verdict import Verdict, verdicts

if TYPE_CHECKING:
    from harness.report.result import Report


def html(report: Report) -> str:
    """The report as a page: verdicts, tables with their charts, and the conditions of the run."""
    draws = charts_available()
    sections = "\n".join(
        _section(table, f"table{number}", draws) for number, table in enumerate(tables(report))
    )
    if draws and (charts := comparisons(report.rows)):
        sections += f"<section><h2>Boards and runtimes</h2>\n{''.join(map(figure, charts))}</section>"
    if report.box_losses:
        figures = "".join(box_figure(loss, number) for number, loss in enumerate(report.box_losses))
        sections += f"<section><h2>Boxes under fp32 and under a policy</h2>\n{figures}</section>"
    return page(
        report.sweep,
        "\n".join(map(_verdict, verdicts(report)))
        + ("" if draws else NO_CHARTS)
        + sections
        + _facts("Machine", report.environment)
        + _facts("Input files (SHA-256)", report.artifacts),
        style=BOXES_STYLE if report.box_losses else "",
    )


def _facts(title: str, facts: Mapping[str, str]) -> str:
    items = "".join(f"<li>{text(name)}: {text(value)}</li>" for name, value in facts.items())
    return f'\n<h2>{title}</h2>\n<ul class="notes">{items}</ul>\n' if facts else ""


def _verdict(verdict: Verdict) -> str:
    kind = "emulated" if verdict.emulated else "measured"
    return (
        f'<section class="verdict {kind}"><h2>{text(verdict.place)}</h2>\n'
        f'<p class="summary">{text(verdict.summary)}</p>\n{notes(verdict.basis)}'
        f'<p class="notes">{text(verdict.next_step)}: '
        f"<code>{text(verdict.next_command)}</code></p></section>"
    )


def _section(table: Table, name: str, draws: bool) -> str:
    emulated = any(row.emulated for row in table.rows)
    before, behind = (
        "".join(map(figure, chain.from_iterable(charts(table.rows) for charts in some if draws)))
        for some in ((fronts, steps), (details,))
    )
    common = f'<p class="common">{text(table.common)}</p>\n' if table.common else ""
    cells = grid(
        name,
        [(column.heading, column.number) for column in table.columns],
        [("optimal" if row.pareto_optimal else row.status, table.cells(row)) for row in table.rows],
    )
    return (
        f'<section class="{"emulated" if emulated else "measured"}">'
        f'<h2 id="{name}">{text(table.title)}</h2>\n{common}'
        f"{before}{cells}\n{notes(table.notes)}{behind}{_commands(table)}</section>"
    )


def _commands(table: Table) -> str:
    """The commands that measure the cells of the charts again."""
    items = "".join(
        f"<li>{text(row.name_on_target)}: <code>{text(row.rerun_command)}</code></li>"
        for row in table.rows
        if row.details
    )
    summary = "Commands that measure single cells again"
    return f'<details class="notes"><summary>{summary}</summary><ul>{items}</ul></details>' if items else ""
