"""A report as flat records: one for each cell, or for each layer of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_type_hints

from harness.measure.spec import CellSpec
from harness.report.result import Report, Row
from harness.runtimes.base import LayerResult

Value = str | int | float | bool | None
Columns = Mapping[str, type]
_INTERVAL = tuple[float, float] | None


@cache
def cell_columns() -> Columns:
    """The columns of cells with their types; each may also be None. Lists and nested values are left out, and
    an interval is two columns, such as `fps_low` and `fps_high`."""
    found: dict[str, type] = {}
    for name, kind in get_type_hints(Row).items():
        if kind == _INTERVAL:
            found |= {_end(name, "low"): float, _end(name, "high"): float}
        elif scalar := _scalar(kind):
            found[name] = scalar
    return found


@cache
def layer_columns() -> Columns:
    """The columns of layers: the identity of the cell, then `layer_index`, `layer_type` and so on."""
    cell = {field.name for field in fields(CellSpec)}
    layer = get_type_hints(LayerResult, include_extras=False)
    return {name: kind for name, kind in cell_columns().items() if name in cell} | {
        f"layer_{name}": scalar for name, kind in layer.items() if (scalar := _scalar(kind))
    }


def records(report: Report, columns: Columns) -> list[dict[str, Value]]:
    """The values of cell_columns() or layer_columns()."""
    if columns is not layer_columns():
        return [_record(columns, _cell(row)) for row in report.rows]
    return [
        _record(columns, vars(row) | {f"layer_{name}": value for name, value in vars(layer).items()})
        for row in report.rows
        for layer in row.layers
    ]


def _cell(row: Row) -> Mapping[str, Any]:
    values = dict(vars(row))
    for name in [name for name in values if "_interval" in name]:
        if isinstance(ends := values[name], tuple):
            values |= {_end(name, "low"): ends[0], _end(name, "high"): ends[1]}
    return values


def _record(columns: Columns, values: Mapping[str, Any]) -> dict[str, Value]:
    return {name: values.get(name) for name in columns}


def _end(name: str, end: str) -> str:
    """p50_interval_ms: p50_low_ms."""
    return name.replace("interval", end)


def _scalar(kind: Any) -> type | None:
    """The type without None; None if it is no single value."""
    inner = [each for each in get_args(kind) or (kind,) if each is not type(None)]
    if all(isinstance(each, str) for each in inner):  # of a Literal
        return str
    return inner[0] if len(inner) == 1 and inner[0] in (str, int, float, bool) else None
