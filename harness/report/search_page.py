"""What `harness search` found, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.charts.chart import charts_available
from harness.report.charts.figure import figure
from harness.report.charts.search import best_layers_chart, front_chart
from harness.report.page import NO_CHARTS, grid, notes, page, text
from harness.report.search import headings, sentences, table_rows, threads_of, unmet


def search_page(document: Mapping[str, Any], model: str) -> str:
    """The page of the command's JSON document: the answer, the front as a chart and as a table, and the
    layers of the best policy. `model` is the model's name."""
    draws = charts_available()
    charts = [front_chart(document), best_layers_chart(document)] if draws else []
    front, *layers = ("" if chart is None else figure(chart) for chart in charts or [None])
    columns = [(" ".join(heading.split()), number) for heading, number in headings(document)]
    rows = [(("optimal" if best else "done"), cells) for best, cells in table_rows(document)]
    kind = "emulated" if document["predicted"] else "measured"
    return page(
        f"{model}: precisions for {document['target']}",
        f'<section class="verdict {kind}"><h2>{text(model)} on {text(document["target"])}</h2>\n'
        f'<p class="summary">{text(answer(document))}</p></section>\n'
        + ("" if draws else NO_CHARTS)
        + f'<section class="{kind}"><h2 id="front">Policies</h2>\n{front}'
        + f"{grid('front', columns, rows)}\n{notes(sentences(document))}{''.join(layers)}</section>\n",
    )


def answer(document: Mapping[str, Any]) -> str:
    """The best policy against fp32, by the verified figures where there are some."""
    best = document["best"]
    if best is None:
        return unmet(document)
    base = document["uniform"][0]["ms"]
    shown = best["verified"] or best
    counts = ", ".join(f"{count} {name}" for name, count in best["layers"].items() if count)
    words = [f"{100 * shown['agreement']:.2f} % agree with fp32"]
    if shown["accuracy_change"] is not None:
        words.append(f"{100 * shown['accuracy_change']:+.2f} points of accuracy")
    how = "on pictures that the search did not see" if best["verified"] else "on the pictures of the search"
    kind = "predicted" if document["predicted"] else "measured"
    return (
        f"Layers with weights: {counts}. {shown['ms']:.4g} ms instead of {base:.4g} ms in fp32, "
        f"{kind} on {threads_of(document)}; {', '.join(words)}, {how}."
    )
