"""The tables of `harness sensitivity`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.bar import Bar
from rich.table import Table

from harness import console
from harness.report.columns import NAMES_OF_METRICS

_BAR = 20  # columns


def show(document: Mapping[str, Any]) -> None:
    """Prints the JSON document of the command as tables."""
    output = console.stdout()
    metric = NAMES_OF_METRICS.get(document["accuracy_metric"] or "", "")
    output.print(f"{document['images']} images, {document['resize']}", soft_wrap=True)
    output.print(_uniform(document["uniform"], metric))
    output.print(_layers(document, metric))
    if document["path"]:
        output.print(_path(document, metric))


def _uniform(rows: Sequence[Mapping[str, Any]], metric: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="All layers", title_justify="left")
    table.add_column("in")
    _add_figures(table, metric, whole=True)
    for row in rows:
        table.add_row(row["precision"], *_figures(row, metric, whole=True))
    return table


def _layers(document: Mapping[str, Any], metric: str) -> Table:
    low, high, rows = document["low"], document["high"], document["layers"]
    table = Table(box=box.SIMPLE_HEAD, title="One layer, the others fp32", title_justify="left")
    _add_layer(table)
    table.add_column("lost similarity")
    _add_figures(table, metric)
    table.add_column("ms", justify="right")
    table.add_column(f"gain in {high},\nothers {low}", justify="right")
    largest = max(1 - row["similarity"] for row in rows) or 1.0
    for row in rows:
        table.add_row(
            *_layer(row),
            Bar(size=largest, begin=0, end=1 - row["similarity"], width=_BAR),
            *_figures(row, metric),
            "-" if row["ms"] is None else f"{row['ms']:.3f}",
            "" if row["gain"] is None else f"{100 * row['gain']:+.2f}",
        )
    return table


def _path(document: Mapping[str, Any], metric: str) -> Table:
    title = f"All layers in {document['low']}, raised to {document['high']} one after another"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("step", justify="right")
    _add_layer(table)
    _add_figures(table, metric)
    for step, row in enumerate(document["path"], start=1):
        table.add_row(str(step), *_layer(row), *_figures(row, metric))
    return table


def _add_layer(table: Table) -> None:
    table.add_column("layer", justify="right")
    for heading in ("name", "kind", "in"):
        table.add_column(heading)


def _layer(row: Mapping[str, Any]) -> list[Any]:
    return [str(row["index"]), console.text(row["name"]), row["kind"], row["precision"]]


def _add_figures(table: Table, metric: str, *, whole: bool = False) -> None:
    headings = ["similarity %", "agreement %", "SQNR dB", *([f"{metric} %"] if metric and whole else [])]
    for heading in [*headings, *([f"Δ {metric}"] if metric else [])]:
        table.add_column(heading, justify="right")


def _figures(row: Mapping[str, Any], metric: str, *, whole: bool = False) -> list[str]:
    noise = "exact" if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f}"
    accuracy = [f"{100 * row['accuracy']:.2f}"] if metric and whole else []
    change = [f"{100 * row['accuracy_change']:+.2f}"] if metric else []
    shares = [f"{100 * row[key]:.2f}" for key in ("similarity", "agreement")]
    return [*shares, noise, *accuracy, *change]
