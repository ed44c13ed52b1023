"""A report on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import console
from harness.printable import one_paragraph
from harness.report.tables import Table, tables

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

    from harness.report.result import Report


def print_report(report: Report) -> None:
    """Prints all tables, without details, to standard output."""
    terminal = console.stdout()
    for table in (table.brief() for table in tables(report)):
        terminal.print(_rich(table))
        for note in table.notes:
            terminal.print("  ", _text(note), sep="", style="dim")
        terminal.print()


def _rich(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable

    found = RichTable(title=_text(table.title), box=box.SIMPLE_HEAD, title_justify="left")
    for column in table.columns:
        found.add_column(column.heading, justify="right" if column.number else "left")
    for row in table.rows:
        style = "bold" if row.pareto_optimal else "red" if row.status == "failed" else None
        found.add_row(*map(_text, table.cells(row)), style=style)
    return found


def _text(text: str) -> Text:
    return console.text(one_paragraph(text))
