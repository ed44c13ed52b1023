"""The layers of cells as values of charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.config.darknet_cfg import PRECISIONS
from harness.prediction.parts import PARTS
from harness.report.cell_names import cell_name
from harness.report.charts.chart import OTHER
from harness.report.layers import nanoseconds, predicted_parts
from harness.report.result import Row
from harness.report.table import NOTHING, figure
from harness.runtimes.base import LayerResult

UNDIVIDED = "undivided"  # a predicted time whose parts are unknown


def with_layers(rows: Sequence[Row]) -> list[Row]:
    """The rows whose layers and their times are known."""
    return [
        row
        for row in rows
        if row.details
        and row.details.layers
        and all(nanoseconds(row, layer) is not None for layer in row.details.layers)
    ]


def is_divided(row: Row) -> bool:
    """Whether a cell's times are predicted and the parts of some are known."""
    return row.emulated and any(map(predicted_parts, row.details.layers if row.details else ()))


def layer_values(row: Row, among: Sequence[Row], *, parts: bool = False) -> list[dict[str, Any]]:
    """A value for each layer of a cell, from its begin to its end; all layers one after another. `among` are
    the cells of its board and model; `parts`: with those of its predicted time."""
    values, begin, name = [], 0.0, cell_name(row, among)
    for layer in row.details.layers if row.details else ():
        milliseconds = (nanoseconds(row, layer) or 0) / 1e6
        conversion = layer.conversion_ns / layer.ns if layer.ns else 0.0
        values.append(
            {
                "cell": name,
                "layer": layer.index,
                "type": layer.type,
                "precision": layer.executed if layer.executed in PRECISIONS else OTHER,
                "algorithm": layer.algorithm,
                "ms": _short(milliseconds),
                "begin": _short(begin),
                "end": _short(begin + milliseconds),
                "converts": _short(100 * conversion),
                **(_parts(layer, milliseconds) if parts else {}),
            }
        )
        begin += milliseconds
    return values


def _parts(layer: LayerResult, milliseconds: float) -> dict[str, Any]:
    """The milliseconds of each part, and which is the largest."""
    parts = predicted_parts(layer)
    if parts is None or not parts.milliseconds:
        return {UNDIVIDED: _short(milliseconds)}
    return {"bound": parts.bound} | {part: _short(getattr(parts, part)) for part in PARTS}


def layer_table(
    rows: Sequence[Row], among: Sequence[Row], *, bounds: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table: a row for each layer, a column for each cell; with `bounds` also one for
    what bounds the layer, and its share."""
    columns = [{value["layer"]: value for value in layer_values(row, among, parts=bounds)} for row in rows]
    types = {layer: value["type"] for column in columns for layer, value in column.items()}
    entries = (_entry, _bound) if bounds else (_entry,)
    body = [
        [str(layer), kind, *(entry(column.get(layer)) for column in columns for entry in entries)]
        for layer, kind in sorted(types.items())
    ]
    titles = ("ms", "bound") if bounds else ("ms",)
    return ["layer", "type", *(f"{cell_name(row, among)}: {title}" for row in rows for title in titles)], body


def _entry(value: dict[str, Any] | None) -> str:
    return NOTHING if value is None else f"{figure(value['ms'])} {value['precision']}"


def _bound(value: dict[str, Any] | None) -> str:
    if value is None or "bound" not in value:
        return NOTHING
    part = value["bound"]
    return f"{part}, {100 * value[part] / value['ms']:.0f} %"


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def layer_tooltip(time: str, *more: Any) -> list[Any]:
    """What pointing at a layer shows; `time` is the title of its milliseconds."""
    import altair as alt

    names = ["cell:N", "layer:O", "type:N", "precision:N", "algorithm:N"]
    return [*names, alt.Tooltip("ms:Q", title=time), *more]
