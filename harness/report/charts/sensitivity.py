"""The charts of sensitivities: what each layer loses, and what raising one after another brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.charts.chart import Chart, precision_colour, series_colour, specification
from harness.report.sensitivity import metric_of

_BAR = 12  # pixels
_SPACE = 8  # between layers
_HEIGHT = 220
_MOST_LAYERS = 40


def losses_chart(document: Mapping[str, Any]) -> Chart:
    """The lost similarity of the most sensitive layers, a bar for each precision."""
    import altair as alt

    rows = document["layers"]
    order = list(dict.fromkeys(row["index"] for row in rows))  # the largest loss first
    shown = set(order[:_MOST_LAYERS])
    values = [_values(row) | _of_layer(row) for row in rows if row["index"] in shown]
    precisions = len({value["precision"] for value in values})
    tooltip = ["layer:N", "kind:N", "precision:N", *_tooltip(document)]
    tooltip += [alt.Tooltip("ms:Q", title="ms on this machine"), alt.Tooltip("gain:Q", title="gain, points")]
    chart = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("lost:Q", title="lost similarity %"),
            y=alt.Y("layer:N", title=None, sort=None),
            yOffset=alt.YOffset("precision:N", sort=None),
            color=precision_colour("in"),
            tooltip=tooltip,
        )
    )
    some = f" The {len(shown)} of {len(order)} layers that lose most." if len(shown) < len(order) else ""
    return Chart(
        caption="What each layer loses by itself, the others in fp32: similarity to fp32's own outputs. The "
        f"largest loss comes first.{some} The table below has the data.",
        specifications=[specification(chart, values, (_BAR * precisions + _SPACE) * len(shown))],
    )


def path_chart(document: Mapping[str, Any]) -> Chart | None:
    """The figures along the path; None: there is none."""
    import altair as alt

    if not document["path"]:
        return None
    low, high = document["low"], document["high"]
    start = next(row for row in document["uniform"] if row["precision"] == low)
    steps = [(f"all layers in {low}", start)]
    steps += [(f"{row['index']} {row['name']} in {row['precision']}", row) for row in document["path"]]
    figures = [("similarity", "similarity %"), ("agreement", "agreement %")]
    metric = metric_of(document)
    if metric:
        figures.append(("accuracy", f"{metric} %"))
    values = [
        {"step": step, "layer": layer, "figure": title, "percent": round(100 * row[name], 2)}
        for name, title in figures
        for step, (layer, row) in enumerate(steps)
    ]
    chart = (
        alt.Chart()
        .mark_line(point=True, aria=False)
        .encode(
            x=alt.X("step:O", title="layers raised", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("percent:Q", title="%", scale=alt.Scale(zero=False)),
            color=series_colour("figure", ""),
            tooltip=["step:O", "layer:N", "figure:N", "percent:Q"],
        )
    )
    return Chart(
        caption=f"All layers in {low}, raised to {high} one after another, in each step the one that helps "
        "most. The table below has the data.",
        specifications=[specification(chart, values, _HEIGHT)],
    )


def _of_layer(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layer": f"{row['index']} {row['name']}",
        "kind": row["kind"],
        "precision": row["precision"],
        "ms": None if row["ms"] is None else round(row["ms"], 4),
        "gain": None if row["gain"] is None else round(100 * row["gain"], 2),
    }


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of an evaluation, in percent, points and dB."""
    noise, change = row["sqnr_db"], row["accuracy_change"]
    return {
        "lost": round(100 * (1 - row["similarity"]), 3),
        "similarity": round(100 * row["similarity"], 2),
        "agreement": round(100 * row["agreement"], 2),
        "noise": None if noise is None else round(noise, 1),
        "change": None if change is None else round(100 * change, 2),
    }


def _tooltip(document: Mapping[str, Any]) -> list[Any]:
    import altair as alt

    titles = {"similarity": "similarity %", "agreement": "agreement %", "noise": "SQNR dB"}
    if metric := metric_of(document):
        titles["change"] = f"Δ {metric}, points"
    return [alt.Tooltip(f"{name}:Q", title=title) for name, title in titles.items()]
