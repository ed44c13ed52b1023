"""A report as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.report.table import R, Table
from harness.report.tables import tables
from harness.report.verdict import Verdict, verdicts
from harness.text import one_paragraph

if TYPE_CHECKING:
    from harness.report.result import Report


def markdown(report: Report) -> str:
    """The report's verdicts and tables, in GitHub's dialect."""
    parts = [f"# {escaped(report.sweep)}"]
    parts += map(_verdict, verdicts(report))
    parts += [*map(markdown_table, tables(report)), "## Machine"]
    parts.append(
        "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in report.environment.items())
    )
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table[R]) -> str:
    """A table with its title and notes."""
    rules = ["---:" if column.number else ":---" for column in table.columns]
    lines = [_line([escaped(column.heading) for column in table.columns]), _line(rules)]
    lines += [_line([escaped(text) for text in table.cells(row)]) for row in table.rows]
    notes = "\n".join(f"- {escaped(note)}" for note in table.notes)
    common = f"{escaped(table.common)}\n\n" if table.common else ""
    return f"## {escaped(table.title)}\n\n{common}" + "\n".join(lines) + f"\n\n{notes}"


def _verdict(verdict: Verdict) -> str:
    parts = [f"## {escaped(verdict.place)}", escaped(verdict.summary)]
    if verdict.basis:
        parts.append("\n".join(f"- {escaped(sentence)}" for sentence in verdict.basis))
    # An indented block is code whatever it contains.
    parts += [f"{escaped(verdict.next_step)}:", f"    {one_paragraph(verdict.next_command)}"]
    return "\n\n".join(parts)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """A text without markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", one_paragraph(text))
