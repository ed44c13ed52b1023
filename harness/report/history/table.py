"""A history as tables: one for each target, measured ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness import console
from harness.report import table
from harness.report.columns import BLOCKS
from harness.report.compare.comparison import percent
from harness.report.history.history import History, described, verdict
from harness.report.history.series import Series
from harness.report.table import NOTHING, figure
from harness.report.terminal import print_notes, print_table
from harness.text import one_paragraph

Column = table.Column[Series]
Table = table.Table[Series]

UNITS = {"time_ms": "ms", "predicted_ms": "predicted ms", "instructions": "million instructions"}
_REGRESSION = "✗"
_MOST_BARS = 16
_LEAST_RANGE = 0.1  # of the smallest value


def print_history(found: History) -> None:
    """Prints the verdict and the tables to standard output."""
    terminal = console.stdout()
    style = "bold red" if found.regressions else "bold"
    for line in console.text(one_paragraph(verdict(found))).wrap(terminal, terminal.width):
        line.rstrip()
        terminal.print(line, style=style)
    terminal.print()
    for each in tables(found):
        print_table(terminal, each, elsewhere="--format html and --json")
    reasons = {each.reason for each in found.series if each.reason}
    print_notes(terminal, [f"No steps were searched for: {reason}." for reason in sorted(reasons)])


def tables(found: History) -> list[Table]:
    groups: dict[tuple[bool, str, str], list[Series]] = {}
    for series in found.series:
        row = series.last.row
        groups.setdefault((row.emulated, row.target, series.figure), []).append(series)
    return [
        _table(found, *group, rows) for group, rows in sorted(groups.items(), key=lambda item: item[0][0])
    ]


def name(series: Series) -> str:
    """The name below the target's title."""
    return series.last.row.name_on_target + (f" [{series.conditions}]" if series.conditions else "")


def number(series: Series, value: float) -> str:
    """In the unit of UNITS, with three significant digits."""
    if series.figure == "instructions":
        return figure(value, 1e6)
    return figure(value) if value >= 1 else f"{value:.3g}"


def _table(found: History, emulated: bool, target: str, kind: str, rows: Sequence[Series]) -> Table:
    def since(series: Series) -> str:
        if not series.steps:
            return NOTHING
        run = found.run_of(series, series.steps[-1])
        return run.commit[:10] or run.name

    def step(series: Series) -> str:
        mark = f"{_REGRESSION} " if found.is_regression(series) else ""
        return mark + percent(series.steps[-1].ratio) if series.steps else NOTHING

    return Table(
        title=f"{target}{' (emulated)' if emulated else ''}, {UNITS[kind]}",
        columns=[
            Column(heading="cell", text=name, number=False),
            Column(heading="runs", text=lambda series: str(len(series.points)), spare=2),
            Column(heading="trend", text=_trend, number=False, spare=1),
            Column(heading="first", text=lambda series: number(series, series.points[0].value)),
            Column(heading="last", text=lambda series: number(series, series.points[-1].value)),
            Column(heading="change", text=lambda series: percent(series.change)),
            Column(heading="last step", text=step),
            Column(heading="in", text=since, number=False, spare=3),
        ],
        rows=rows,
        style=lambda series: "bold red" if found.is_regression(series) else None,
        notes=list(_notes(found, rows)),
    )


def _notes(found: History, rows: Sequence[Series]) -> Iterator[str]:
    for series in rows:
        for step in series.steps:
            yield f"{name(series)}: {described(found, series, step)}."
    if any(map(found.is_regression, rows)):
        yield f"{_REGRESSION} Regression: slower than before a step by more than the limit of --fail-on."


def value_range(values: Sequence[float]) -> tuple[float, float]:
    """The ends of a chart of these values, wide enough that noise does not look like steps."""
    low, high = min(values), max(values)
    return low, max(high, low * (1 + _LEAST_RANGE))


def _trend(series: Series) -> str:
    """The values as bars; of many, the last ones."""
    values = [point.value for point in series.points][-_MOST_BARS:]
    low, high = value_range(values)
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in values)
