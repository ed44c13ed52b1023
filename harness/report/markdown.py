"""A report as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.report.tables import Table, tables
from harness.text import one_paragraph

if TYPE_CHECKING:
    from harness.report.result import Report


def markdown(report: Report) -> str:
    """The report's tables, in GitHub's dialect."""
    parts = [f"# {_escape(report.sweep)}", *map(_table, tables(report)), "## Machine"]
    parts.append(
        "\n".join(f"- {_escape(name)}: {_escape(value)}" for name, value in report.environment.items())
    )
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    rules = ["---:" if column.number else ":---" for column in table.columns]
    lines = [_line([_escape(column.heading) for column in table.columns]), _line(rules)]
    lines += [_line([_escape(text) for text in table.cells(row)]) for row in table.rows]
    notes = "\n".join(f"- {_escape(note)}" for note in table.notes)
    common = f"{_escape(table.common)}\n\n" if table.common else ""
    return f"## {_escape(table.title)}\n\n{common}" + "\n".join(lines) + f"\n\n{notes}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", one_paragraph(text))
