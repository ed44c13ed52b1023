"""What `harness sensitivity` measured, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.charts.chart import charts_available
from harness.report.charts.figure import figure
from harness.report.charts.sensitivity import losses_chart, path_chart
from harness.report.page import NO_CHARTS, grid, notes, page, text
from harness.report.sensitivity import SensitivityTable, metric_of, pictures_of, sensitivity_tables

_NAMED = 3  # layers of the answer


def sensitivity_page(document: Mapping[str, Any], model: str) -> str:
    """The page of the command's JSON document: the answer, and each table, below its chart if it has one.
    `model` is the model's name."""
    draws = charts_available()
    charts = [None, losses_chart(document), path_chart(document)] if draws else [None] * 3
    tables = sensitivity_tables(document)
    sections = [
        _section(table, f"table{number}", "" if chart is None else figure(chart))
        for number, (table, chart) in enumerate(zip(tables, charts, strict=False))
    ]
    return page(
        f"{model}: sensitivity of its layers",
        f'<section class="verdict"><h2>{text(model)}</h2>\n'
        f'<p class="summary">{text(answer(document))}</p>\n{notes(_basis(document))}</section>\n'
        + ("" if draws else NO_CHARTS)
        + "\n".join(sections),
    )


def answer(document: Mapping[str, Any]) -> str:
    """The layers that lose most in the lowest precision, and what all lose together."""
    low, high = document["low"], document["high"]
    alone = [row for row in document["layers"] if row["precision"] == low][:_NAMED]
    named = ", ".join(f"{row['name']} ({100 * (1 - row['similarity']):.2f} %)" for row in alone)
    together = next(row for row in document["uniform"] if row["precision"] == low)
    sentences = [
        f"Of single layers in {low}, these lose most similarity to fp32: {named}.",
        f"All layers in {low} lose {100 * (1 - together['similarity']):.2f} %{_change(together, document)}.",
    ]
    if document["path"]:
        count, last = len(document["path"]), document["path"][-1]
        sentences.append(
            f"With {count} of them raised to {high} it is {100 * (1 - last['similarity']):.2f} %"
            f"{_change(last, document)}."
        )
    return " ".join(sentences)


def _change(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    metric = metric_of(document)
    return f" ({100 * row['accuracy_change']:+.2f} points of {metric})" if metric else ""


def _basis(document: Mapping[str, Any]) -> list[str]:
    basis = [
        f"{pictures_of(document)}; computed on this machine.",
        "Times of layers were measured on this machine, on one thread.",
    ]
    if document["calibration"]:
        basis.insert(1, f"int8 with the ranges of {document['calibration']}.")
    return basis


def _section(table: SensitivityTable, name: str, drawing: str) -> str:
    columns = [(" ".join(heading.split()), number) for heading, number in table.headings]
    rows = [("done", cells) for cells in table.rows]
    heading = f'<h2 id="{name}">{text(table.title)}</h2>'
    return f"<section>{heading}\n{drawing}{grid(name, columns, rows)}</section>\n"
