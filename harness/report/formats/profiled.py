"""The cells of a report whose layers have times."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ConfigurationError
from harness.report.layers import nanoseconds
from harness.report.result import Report, Row


def profiled(report: Report) -> Sequence[Row]:
    """At least one. Raises ConfigurationError if there is none."""
    found = [row for row in report.rows if any(nanoseconds(row, layer) is not None for layer in row.layers)]
    if not found:
        raise ConfigurationError(
            f"{report.folder}: no cell has the times of its layers",
            hint="Only the engine reports them. `harness report --layers` shows which cells have them.",
        )
    return found


def only_profile(report: Report, form: str) -> Row:
    """The only one. Raises ConfigurationError if there is none or another."""
    first, *others = profiled(report)
    if others:
        raise ConfigurationError(
            f"--format {form} takes one cell; {1 + len(others)} have the times of their layers",
            hint=f'Choose one, for example with --cell "{first.name}".',
        )
    return first
