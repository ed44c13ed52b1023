"""A report on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness import console
from harness.report.table import Column, R, Table
from harness.report.tables import tables
from harness.report.verdict import Verdict, verdicts
from harness.text import one_paragraph

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from harness.report.result import Report


_GAP = 2  # between columns, one of them the box's


def print_report(report: Report, terminal: Console | None = None) -> None:
    """Prints the verdicts and all tables, without details (default: to standard output)."""
    terminal = terminal or console.stdout()
    for verdict in verdicts(report):
        _print_verdict(terminal, verdict)
    for table in tables(report):
        print_table(terminal, table)


def print_table(terminal: Console, table: Table[R], elsewhere: str = "Markdown, HTML and --json") -> None:
    """Prints a table without details. `elsewhere` names the formats that have all columns."""
    brief = table.brief()
    shown, without = fitted(brief, terminal.width)
    terminal.print(_text(brief.title), style="italic")
    if brief.common:
        terminal.print(_text(brief.common), style="dim")
    terminal.print(_rich(shown, terminal.width))
    notes = list(brief.notes)
    # A column of bars has no heading and says nothing that others do not.
    if names := ", ".join(column.heading for column in without if column.heading):
        notes.append(f"Columns that do not fit here: {names}. {elsewhere} have all.")
    print_notes(terminal, notes)
    terminal.print()


def _print_verdict(terminal: Console, verdict: Verdict) -> None:
    summary = _text(f"{verdict.place}: {verdict.summary}")
    summary.stylize("bold")
    terminal.print(summary)
    print_notes(terminal, [" ".join(verdict.basis), f"{verdict.next_step}: {verdict.next_command}"])
    terminal.print()


def print_notes(terminal: Console, notes: Sequence[str]) -> None:
    """Prints sentences, indented."""
    for note in notes:
        for line in _text(note).wrap(terminal, max(terminal.width - 2, 20)):
            line.rstrip()
            terminal.print("  ", line, sep="", style="dim")


def fitted(table: Table[R], width: int) -> tuple[Table[R], list[Column[R]]]:
    """The table with folded headings and without the least important columns, as far as needed for this width
    in characters; and the columns that were left out."""
    columns = list(table.columns)
    if _width(table) <= width:
        return table, []
    narrow = {id(column): replace(column, heading=_folded(column, table)) for column in columns}
    without: list[Column[R]] = []
    while True:
        shown = replace(table, columns=[narrow[id(column)] for column in columns])
        spare = [column for column in columns if column.spare]
        if _width(shown) <= width or not spare:
            return shown, without
        without.append(max(spare, key=lambda column: column.spare))
        columns.remove(without[-1])


def _width(table: Table[R]) -> int:
    from rich.cells import cell_len

    widths = [
        max(cell_len(line) for text in (column.heading, *_texts(column, table)) for line in text.split("\n"))
        for column in table.columns
    ]
    return sum(widths) + _GAP * (len(widths) - 1)


def _folded(column: Column[R], table: Table[R]) -> str:
    """A heading folded to the width of its column, if its words allow."""
    from rich.cells import cell_len

    widest = max((cell_len(text) for text in _texts(column, table)), default=0)
    width = max(widest, *(len(word) for word in column.heading.split()), 1)
    return "\n".join(textwrap.wrap(column.heading, width, break_on_hyphens=False))


def _texts(column: Column[R], table: Table[R]) -> list[str]:
    return [one_paragraph(column.text(row)) for row in table.rows]


def _rich(table: Table[R], width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable

    found = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    fits = _width(table) <= width
    for column in table.columns:
        # Long names are wrapped, not cut.
        found.add_column(
            column.heading,
            justify="right" if column.number else "left",
            vertical="top",
            no_wrap=fits or column.number,
            overflow="fold",
        )
    for row in table.rows:
        found.add_row(*map(_text, table.cells(row)), style=table.style(row))
    return found


def _text(text: str) -> Text:
    return console.text(one_paragraph(text))
