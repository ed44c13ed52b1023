"""The time of each layer of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import console
from harness.prediction.parts import PARTS, LayerParts
from harness.report.table import Column, Table, figure

if TYPE_CHECKING:
    from harness.report.result import Report, Row
    from harness.runtimes.base import LayerResult

# index, type, executed precision, instruction set, algorithm, milliseconds
LayerTime = tuple[int, str, str, str, str, float | None]
_BAR = 12  # characters of the slowest layer's bar
_EIGHTHS = " ▏▎▍▌▋▊▉"


def print_layers(title: str, heading: str, layers: Sequence[LayerTime], elsewhere: str) -> None:
    """A table with each layer's share of the sum, as a number and as a bar. `heading` names the kind of time,
    `elsewhere` the formats that have the columns that do not fit."""
    from harness.report.terminal import print_table

    print_table(console.stdout(), layers_table(title, heading, layers), elsewhere)


def layers_table(title: str, heading: str, layers: Sequence[LayerTime]) -> Table[LayerTime]:
    """The table that `print_layers` prints. An instruction set that all layers share is named once."""
    total = sum(layer[-1] or 0.0 for layer in layers)
    most = max((layer[-1] or 0.0 for layer in layers), default=0.0)
    common = common_isa([layer[3] for layer in layers])

    def share(layer: LayerTime) -> float | None:
        return None if layer[-1] is None or total == 0 else 100 * layer[-1] / total

    isa: Column[LayerTime] = Column(
        heading="instruction set", text=lambda layer: layer[3], number=False, spare=2
    )
    return Table(
        title=title,
        columns=[
            Column(heading="layer", text=lambda layer: str(layer[0])),
            Column(heading="type", text=lambda layer: layer[1], number=False),
            Column(heading="executed", text=lambda layer: layer[2], number=False),
            *([] if common else [isa]),
            Column(heading="algorithm", text=lambda layer: layer[4], number=False, spare=1),
            Column(heading=heading, text=lambda layer: figure(layer[-1])),
            Column(heading="share %", text=lambda layer: figure(share(layer))),
            Column(
                heading="", text=lambda layer: bar((layer[-1] or 0.0) / most if most else 0.0), number=False
            ),
        ],
        rows=layers,
        style=lambda _: None,
        common=common,
    )


def common_isa(sets: Sequence[str]) -> str:
    """The line that names the instruction set of all layers; empty if they have several."""
    return f"instruction set: {sets[0]}" if len(set(sets)) == 1 else ""


def bar(part: float) -> str:
    """A bar in eighths of a character; `part` of the longest one."""
    eighths = round(8 * _BAR * part)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def print_report_layers(report: Report) -> None:
    """A table for each cell: predicted times of those that were emulated, measured ones of the others."""
    for row in report.rows:
        if row.layers:
            heading = "predicted ms" if row.emulated else "ms"
            times = [_time(row, layer) for layer in row.layers]
            print_layers(f"{report.sweep}: {row.name}", heading, times, "--format csv and --json")


def nanoseconds(row: Row, layer: LayerResult) -> int | None:
    """The predicted time of a layer of an emulated cell, and the measured one of another."""
    return layer.predicted_ns if row.emulated else layer.ns


def predicted_parts(layer: LayerResult) -> LayerParts | None:
    """What a layer's predicted time is spent on; None: unknown, or without multiply-adds."""
    found = {part: getattr(layer, f"predicted_{part}_ns") for part in PARTS}
    if any(nanoseconds is None for nanoseconds in found.values()):
        return None
    return LayerParts(**{part: nanoseconds / 1e6 for part, nanoseconds in found.items()})


def _time(row: Row, layer: LayerResult) -> LayerTime:
    time = nanoseconds(row, layer)
    milliseconds = None if time is None else time / 1e6
    return layer.index, layer.type, layer.executed, layer.isa, layer.algorithm, milliseconds
