"""The tables of `harness sensitivity`, for terminals and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.columns import NAMES_OF_METRICS
from harness.report.table import NOTHING

_BAR = 20  # columns
_LAYER = [("layer", True), ("name", False), ("kind", False), ("in", False)]


@dataclass(frozen=True, kw_only=True)
class SensitivityTable:
    """A table of the command; `headings` with whether the cells below are numbers."""

    title: str
    headings: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]
    bars: Sequence[float] = ()  # of the rows: the lost similarity, a fraction


def sensitivity_tables(document: Mapping[str, Any]) -> list[SensitivityTable]:
    """The tables of the JSON document: all layers, one layer at a time, and the path if there is one."""
    metric = metric_of(document)
    low, high, layers, path = (document[key] for key in ("low", "high", "layers", "path"))
    tables = [
        SensitivityTable(
            title="All layers",
            headings=[("in", False), *_figure_headings(metric, whole=True)],
            rows=[[row["precision"], *_figures(row, metric, whole=True)] for row in document["uniform"]],
        ),
        SensitivityTable(
            title="One layer, the others fp32",
            headings=[
                *_LAYER,
                *_figure_headings(metric),
                ("ms", True),
                (f"gain in {high},\nothers {low}", True),
            ],
            rows=[[*_layer(row), *_figures(row, metric), *_time_and_gain(row)] for row in layers],
            bars=[1 - row["similarity"] for row in layers],
        ),
    ]
    if path:
        tables.append(
            SensitivityTable(
                title=f"All layers in {low}, raised to {high} one after another",
                headings=[("step", True), *_LAYER, *_figure_headings(metric)],
                rows=[
                    [str(step), *_layer(row), *_figures(row, metric)]
                    for step, row in enumerate(path, start=1)
                ],
            )
        )
    return tables


def pictures_of(document: Mapping[str, Any]) -> str:
    """What was evaluated."""
    return f"{document['images']} images, {document['resize']}"


def metric_of(document: Mapping[str, Any]) -> str:
    """The name of the accuracy; "" without labels."""
    return NAMES_OF_METRICS.get(document["accuracy_metric"] or "", "")


def show(document: Mapping[str, Any]) -> None:
    """Prints the JSON document of the command as tables."""
    from harness import console

    output = console.stdout()
    output.print(pictures_of(document), soft_wrap=True)
    for table in sensitivity_tables(document):
        output.print(_printed(table))


def _printed(table: SensitivityTable) -> Any:
    """As rich prints it, the bars behind the columns of the layer."""
    from rich import box
    from rich.bar import Bar
    from rich.table import Table

    from harness import console

    shown = Table(box=box.SIMPLE_HEAD, title=table.title, title_justify="left")
    headings: list[tuple[str, bool]] = list(table.headings)
    if table.bars:
        headings.insert(len(_LAYER), ("lost similarity", False))
    for heading, number in headings:
        shown.add_column(heading, justify="right" if number else "left")
    largest = max(table.bars, default=0.0) or 1.0
    for place, row in enumerate(table.rows):
        cells: list[Any] = [console.text(cell) for cell in row]
        if table.bars:
            cells.insert(len(_LAYER), Bar(size=largest, begin=0, end=table.bars[place], width=_BAR))
        shown.add_row(*cells)
    return shown


def _layer(row: Mapping[str, Any]) -> list[str]:
    return [str(row["index"]), row["name"], row["kind"], row["precision"]]


def _figure_headings(metric: str, *, whole: bool = False) -> list[tuple[str, bool]]:
    headings = ["similarity %", "agreement %", "SQNR dB", *([f"{metric} %"] if metric and whole else [])]
    return [(heading, True) for heading in [*headings, *([f"Δ {metric}"] if metric else [])]]


def _figures(row: Mapping[str, Any], metric: str, *, whole: bool = False) -> list[str]:
    noise = "exact" if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f}"
    accuracy = [f"{100 * row['accuracy']:.2f}"] if metric and whole else []
    change = [f"{100 * row['accuracy_change']:+.2f}"] if metric else []
    shares = [f"{100 * row[key]:.2f}" for key in ("similarity", "agreement")]
    return [*shares, noise, *accuracy, *change]


def _time_and_gain(row: Mapping[str, Any]) -> list[str]:
    return [
        NOTHING if row["ms"] is None else f"{row['ms']:.3f}",
        "" if row["gain"] is None else f"{100 * row['gain']:+.2f}",
    ]
