"""A comparison as text: on the terminal, and as Markdown for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from harness import console
from harness.report.compare.comparison import Comparison, verdict
from harness.report.compare.conditions import described
from harness.report.compare.side import MeasuredCell, Side
from harness.report.compare.table import tables
from harness.report.markdown import escaped, markdown_table
from harness.report.terminal import print_notes, print_table
from harness.text import one_paragraph

_LISTED = 5  # names in a note


def print_comparison(comparison: Comparison) -> None:
    """Prints the verdict, the tables and the notes to standard output."""
    terminal = console.stdout()
    style = "bold red" if comparison.regressions else "bold"
    for line in console.text(one_paragraph(verdict(comparison))).wrap(terminal, terminal.width):
        line.rstrip()
        terminal.print(line, style=style)
    print_notes(terminal, _sides(comparison))
    terminal.print()
    for table in tables(comparison):
        print_table(terminal, table, elsewhere="--format markdown and --json")
    print_notes(terminal, notes(comparison))


def markdown(comparison: Comparison) -> str:
    """The same in GitHub's dialect."""
    parts = [
        f"**{escaped(verdict(comparison))}**",
        _list(_sides(comparison)),
        *map(markdown_table, tables(comparison)),
        _list(notes(comparison)),
    ]
    return "\n\n".join(stripped for part in parts if (stripped := part.rstrip())) + "\n"


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def notes(comparison: Comparison) -> list[str]:
    """What concerns all tables."""
    found = [
        f"Unlike conditions, allowed: {described(unlike)}. The difference may be theirs."
        for unlike in comparison.unlike
    ]
    found += [f"Also different: {described(each)}." for each in comparison.noted]
    for label, cells in (("A", comparison.only_a), ("B", comparison.only_b)):
        if cells:
            found.append(f"Only in {label}: {_named(cells)}.")
    for label, side in (("A", comparison.a), ("B", comparison.b)):
        if later := sum(cell.measured_in > side.run.id for cell in side.cells):
            found.append(
                f"{label}: {later} of {len(side.cells)} cells were measured again by a later run with "
                "--fresh, which replaced the samples of this run."
            )
    return found


def _sides(comparison: Comparison) -> list[str]:
    return [_side(label, side) for label, side in (("A", comparison.a), ("B", comparison.b))]


def _side(label: str, side: Side) -> str:
    started = datetime.fromtimestamp(side.run.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{label}: {side.folder}, run {side.run.id} of {side.run.sweep}, {started}"


def _named(cells: Sequence[MeasuredCell]) -> str:
    names = [cell.row.name + (f" ({cell.row.status})" if cell.row.status != "done" else "") for cell in cells]
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
