"""The charts of a search: what each policy of the front takes and loses, and the best one's layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.config.darknet_cfg import PRECISIONS
from harness.report.charts.chart import OTHER, Chart, precision_colour, series_colour, specification
from harness.report.search import policy_name
from harness.report.table import figure

_HEIGHT = 280  # pixels
_ROW = 60
_PADDING = 24  # so that marks do not touch the axes
_UNIFORM, _SEARCHED, _VERIFIED = "all layers alike", "searched", "verified"
_THINNEST = 0.001  # of the whole time: thinner layers are not drawn


def front_chart(document: Mapping[str, Any]) -> Chart:
    """Time against agreement with fp32 and, with labels, against the change in accuracy."""
    values = list(_values(document))
    metrics = {"agreement": "agreement with fp32 %"}
    if document["accuracy_metric"]:
        metrics["change"] = "change in accuracy, points"
    seen = "Filled marks are of pictures that the search did not see, hollow ones of its own pictures. "
    return Chart(
        caption="The policies of the front: time of an inference against what they lose. "
        + (seen if any(value["kind"] == _VERIFIED for value in values) else "")
        + "A line joins both figures of a policy. "
        + ("All times are predicted, not measured on a board. " if document["predicted"] else "")
        + "The table below has the data.",
        specifications=[_front(values, name, title, document) for name, title in metrics.items()],
    )


def _front(values: Sequence[Mapping[str, Any]], name: str, title: str, document: Mapping[str, Any]) -> Any:
    import altair as alt

    time = f"{'predicted' if document['predicted'] else 'measured'} ms"
    x = alt.X("ms:Q", title=time, scale=alt.Scale(zero=False, padding=_PADDING))
    y = alt.Y(f"{name}:Q", title=title, scale=alt.Scale(zero=False, padding=_PADDING))
    tooltip = ["policy:N", "kind:N", alt.Tooltip("ms:Q", title=time), alt.Tooltip(f"{name}:Q", title=title)]
    encoding = {
        "x": x,
        "y": y,
        "color": series_colour("kind", "figures"),
        "shape": alt.Shape("kind:N", sort=None, title="figures"),
        "tooltip": tooltip,
    }
    base = alt.Chart()
    marks = [
        base.transform_filter("datum.front")
        .mark_line(aria=False, opacity=0.5, color="gray")
        .encode(x=x, y=y, detail="policy:N"),
        base.transform_filter("datum.label")
        .mark_text(align="left", dx=9, dy=-9, aria=False)
        .encode(x=x, y=y, text="policy:N"),
        base.transform_filter(f"datum.kind != '{_VERIFIED}'")
        .mark_point(size=80, strokeWidth=2)
        .encode(**encoding),
        base.transform_filter(f"datum.kind == '{_VERIFIED}'")
        .mark_point(size=80, filled=True)
        .encode(**encoding),
    ]
    return specification(alt.layer(*marks), values, _HEIGHT)


def _values(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for row in document["uniform"]:
        yield _value(row, row["precision"], _UNIFORM) | {"label": True}
    for number, row in enumerate(document["front"], start=1):
        name = policy_name(number, row)
        yield _value(row, name, _SEARCHED) | {"front": True, "label": not row["verified"]}
        if row["verified"]:
            yield _value(row["verified"], name, _VERIFIED) | {"front": True, "label": True}


def _value(row: Mapping[str, Any], name: str, kind: str) -> dict[str, Any]:
    change = row["accuracy_change"]
    return {
        "policy": name,
        "kind": kind,
        "ms": float(f"{row['ms']:.4g}"),
        "agreement": round(100 * row["agreement"], 2),
        "change": None if change is None else round(100 * change, 2),
    }


def best_layers_chart(document: Mapping[str, Any]) -> Chart | None:
    """The layers of the best policy side by side, as wide as their times; None: there is none."""
    import altair as alt

    layers: Sequence[Mapping[str, Any]] = document["best_layers"]
    if not layers:
        return None
    values, begin = [], 0.0
    least = _THINNEST * sum(layer["ms"] for layer in layers)
    for layer in layers:
        end = begin + layer["ms"]
        if layer["ms"] >= least:
            ends = {name: float(f"{value:.4g}") for name, value in (("begin", begin), ("end", end))}
            values.append({**layer, "precision": _precision(layer), "row": "★", **ends})
        begin = end
    time = f"{'predicted' if document['predicted'] else 'measured'} ms"
    chart = (
        alt.Chart()
        .mark_rect(stroke="currentColor", strokeWidth=0.3, aria=False)
        .encode(
            x=alt.X("begin:Q", title=time),
            x2="end:Q",
            y=alt.Y("row:N", title=None),
            color=precision_colour("works in"),
            tooltip=[
                "index:O",
                "name:N",
                "kind:N",
                "precision:N",
                alt.Tooltip("ms:Q", title=time, format=".4~g"),
            ],
        )
    )
    return Chart(
        caption="The layers of the best policy, as wide as their times by the sum over layers, with the "
        "conversions before them. Layers without weights have the precision in which their output is stored.",
        specifications=[specification(chart, values, _ROW)],
        headings=["layer", "name", "kind", "precision", "ms"],
        rows=[
            [str(layer["index"]), layer["name"], layer["kind"], layer["precision"], figure(layer["ms"])]
            for layer in layers
        ],
    )


def _precision(layer: Mapping[str, Any]) -> str:
    return layer["precision"] if layer["precision"] in PRECISIONS else OTHER
