"""The tables of a report, independent of the output format: measured targets first, then emulated ones."""

from __future__ import annotations

from collections.abc import Sequence

from harness.config.sweep import Build
from harness.report import columns, table
from harness.report.backends import backend_notes
from harness.report.columns import Column
from harness.report.float_notes import float_notes
from harness.report.notes import (
    cause_notes,
    comparison_notes,
    general_notes,
    instruction_notes,
    percentile_notes,
)
from harness.report.result import Report, Row, group_of
from harness.report.table import NOTHING, figure

__all__ = ["NOTHING", "Column", "Table", "figure", "tables"]


Table = table.Table[Row]


def tables(report: Report) -> list[Table]:
    """A table for every target, and one for every series of steps."""
    targets = dict.fromkeys((row.emulated, row.target) for row in report.rows if not row.step)
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in report.rows:
        if row.step:
            groups.setdefault(group_of(row), []).append(row)
    return [
        *(_table(report, target, emulated) for emulated, target in sorted(targets, key=lambda pair: pair[0])),
        *(_steps_table(report, rows) for rows in groups.values()),
    ]


def _steps_table(report: Report, rows: Sequence[Row]) -> Table:
    """Steps in their order, with the gain of each."""
    first = rows[0]
    threads = [columns.THREADS] if len({row.threads for row in rows}) > 1 else []
    names = [first.model, first.policy]
    names += [first.toolchain] if first.toolchain != Build().name else []
    target = f"{first.target} (emulated)" if first.emulated else first.target
    notes = [f"{row.step}: {row.note}" for row in rows if row.note]
    return Table(
        title=f"{report.sweep}: {' '.join(names)} on {target}",
        columns=[
            columns.STEP,
            *threads,
            *columns.steps(rows),
            *columns.accuracy(rows),
            *columns.ending(rows),
        ],
        rows=rows,
        style=_style,
        notes=[
            *notes,
            *instruction_notes(rows),
            *backend_notes(rows),
            *float_notes(rows),
            *general_notes(rows),
            *comparison_notes(rows),
            *cause_notes(rows),
        ],
    )


def _table(report: Report, target: str, emulated: bool) -> Table:
    rows = [row for row in report.rows if (row.target, row.emulated) == (target, emulated) and not row.step]
    identity, common = columns.identity(rows)
    compared = any(row.digest_matches_host is not None for row in rows)
    title = f"{target} (emulated)" if emulated else target
    return Table(
        title=f"{report.sweep}: {title}",
        columns=[
            *identity,
            *(columns.emulated(rows) if emulated else columns.measured(rows)),
            *columns.accuracy(rows),
            *([columns.OUTPUTS] if compared else []),
            *columns.ending(rows),
        ],
        rows=rows,
        style=_style,
        common=common,
        notes=[
            *backend_notes(rows),
            *float_notes(rows),
            *general_notes(rows),
            *comparison_notes(rows),
            *percentile_notes(rows),
            *cause_notes(rows),
        ],
    )


def _style(row: Row) -> str | None:
    styles = {"failed": "red", "skipped": "dim", "pending": "dim"}
    return "bold" if row.pareto_optimal else styles.get(row.status)
