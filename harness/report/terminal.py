"""A report on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.report.tables import Table, tables

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from harness.report.result import Report

_WIDTH = 200  # where standard output is no terminal: nothing is cut


def print_report(report: Report) -> None:
    """Prints all tables to standard output."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    for table in tables(report):
        console.print(_rich(table))
        for note in table.notes:
            console.print(f"  {note}", style="dim", markup=False)
        console.print()


def _rich(table: Table) -> RichTable:
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    found = RichTable(title=escape(table.title), box=box.SIMPLE_HEAD, title_justify="left")
    for column in table.columns:
        found.add_column(column.heading, justify="right" if column.number else "left")
    for row in table.rows:
        style = "bold" if row.pareto_optimal else "red" if row.status == "failed" else None
        found.add_row(*map(escape, table.cells(row)), style=style)
    return found
