"""The time of each layer of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import console
from harness.report.tables import figure

if TYPE_CHECKING:
    from harness.report.result import Report, Row
    from harness.runtimes.base import LayerResult

# index, type, executed precision, instruction set, algorithm, milliseconds
LayerTime = tuple[int, str, str, str, str, float | None]


def print_layers(title: str, heading: str, layers: Sequence[LayerTime]) -> None:
    """A table with each layer's share of the sum; `heading` names the kind of time."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=console.text(title), title_justify="left")
    for name in ("layer", "type", "executed", "instruction set", "algorithm", heading, "share %"):
        numeric = name in ("layer", heading, "share %")
        table.add_column(name, justify="right" if numeric else "left")
    total = sum(layer[-1] or 0.0 for layer in layers)
    for index, *names, milliseconds in layers:
        share = None if milliseconds is None or total == 0 else 100 * milliseconds / total
        table.add_row(str(index), *map(str, names), figure(milliseconds), figure(share))
    console.stdout().print(table)


def print_report_layers(report: Report) -> None:
    """A table for each cell: predicted times of those that were emulated, measured ones of the others."""
    for row in report.rows:
        if row.layers:
            heading = "predicted ms" if row.emulated else "ms"
            print_layers(f"{report.sweep}: {row.name}", heading, [_time(row, layer) for layer in row.layers])


def nanoseconds(row: Row, layer: LayerResult) -> int | None:
    """The predicted time of a layer of an emulated cell, and the measured one of another."""
    return layer.predicted_ns if row.emulated else layer.ns


def _time(row: Row, layer: LayerResult) -> LayerTime:
    time = nanoseconds(row, layer)
    milliseconds = None if time is None else time / 1e6
    return layer.index, layer.type, layer.executed, layer.isa, layer.algorithm, milliseconds
