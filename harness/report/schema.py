"""JSON schemas of the documents that `report`, `compare`, `history` and `predict` print with --json.

They are made from the types of the values, so a new field is in them. VERSION rises when a key goes, is
renamed, or gets another type or unit; new keys do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Literal, get_type_hints

import msgspec

from harness.measure.spec import CellSpec
from harness.prediction.layer_figures import LayerFigures
from harness.report.compare.conditions import Unlike
from harness.report.compare.difference import Change, Difference, Figure
from harness.report.limits import Limits
from harness.report.result import INTERNAL, VERSION, Row
from harness.report.verdict import Verdict

_Type = Any  # an annotation


def schemas() -> dict[str, type]:
    """The type of each command's document."""
    return {"report": _report(), "compare": _compare(), "history": _history(), "predict": _predict()}


def json_schema(command: str) -> dict[str, object]:
    """The schema (draft 2020-12) of a command's document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:harness:{command}:{VERSION}",
        **msgspec.json.schema(schemas()[command]),
    }


def _report() -> type:
    return _record(
        "Report",
        schema_version=Literal[1],
        sweep=str,
        results=str,
        environment=Mapping[str, str],
        counts=Mapping[str, int],
        sweep_file=str,
        artifacts=Mapping[str, str],
        limits=_record("Limits", **_hints(Limits)),
        verdicts=_list_of(_record("Verdict", **_hints(Verdict))),
        cells=_list_of(_record("Cell", **_hints(Row, without=INTERNAL))),
    )


def _compare() -> type:
    side = _record("Run", results=str, run=int, sweep=str, started=float)
    cell = _record(
        "Comparison",
        **_hints(CellSpec),
        differs=Mapping[str, str | int | bool],
        **_hints(Difference, without=("a", "b")),
        throttled_a=bool | None,
        throttled_b=bool | None,
    )
    alone = _record("Alone", **_hints(CellSpec), status=get_type_hints(Row)["status"])
    return _record(
        "Compare",
        schema_version=Literal[1],
        verdict=str,
        regression=bool,
        fail_on=float | None,
        a=side,
        b=side,
        counts=Mapping[str, int],
        unlike=list[Unlike],
        noted=list[Unlike],
        cells=_list_of(cell),
        only_a=_list_of(alone),
        only_b=_list_of(alone),
    )


def _history() -> type:
    run = _record("Run", name=str, run=int, sweep=str, started=float, commit=str | None)
    point = _record("Point", run=int, value=float, throttled=bool | None)
    step = _record(
        "Step", run=int, before=float, after=float, ratio=float, noted=list[Unlike], changes=list[Change]
    )
    cell = _record(
        "Series",
        **_hints(CellSpec),
        board=str | None,
        conditions=str,
        figure=Figure,
        first=float,
        last=float,
        change=float,
        slowdown_vs_best=float | None,
        regression=bool,
        reason=str | None,
        points=_list_of(point),
        steps=_list_of(step),
    )
    return _record(
        "History",
        schema_version=Literal[1],
        verdict=str,
        regression=bool,
        fail_on=float | None,
        runs=_list_of(run),
        cells=_list_of(cell),
    )


def _predict() -> type:
    """Without --calibrate, which prints a fit instead of predictions."""
    layer = _record("Layer", **_hints(LayerFigures))
    prediction = _record(
        "Prediction",
        policy=str,
        target=str,
        threads=int,
        **dict.fromkeys(("predicted_ms", "predicted_low_ms", "predicted_high_ms", "predicted_fps"), float),
        **dict.fromkeys(
            ("compute_ms", "memory_ms", "instructions", "bytes_moved", "prediction_error"), float
        ),
        prediction_validated=bool,
        prediction_coefficients_of=str | None,
        layers=_list_of(layer),
    )
    return _record(
        "Predict",
        schema_version=Literal[1],
        predictions=_list_of(prediction),
        llvm=str,
    )


def _record(name: str, /, **kinds: _Type) -> type:
    """A type with these keys, all of which a document has."""
    return msgspec.defstruct(name, list(kinds.items()), kw_only=True)


def _list_of(kind: _Type) -> _Type:
    """`list[kind]`, which type checkers take only of kinds that they know."""
    return GenericAlias(list, (kind,))


def _hints(kind: type, without: tuple[str, ...] = ()) -> dict[str, _Type]:
    return {name: hint for name, hint in get_type_hints(kind).items() if name not in without}
