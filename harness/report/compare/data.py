"""A comparison as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from harness.measure.spec import CellSpec
from harness.report.compare.comparison import Comparison, verdict
from harness.report.compare.difference import Difference
from harness.report.compare.side import MeasuredCell, Side
from harness.report.result import VERSION, Row
from harness.store.reader import SPEC_COLUMNS

_OUTCOMES = ("slower", "faster", "no difference", "same result", "not tested", "no result")


def data(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON values."""
    counts = comparison.counts
    return {
        "schema_version": VERSION,
        "verdict": verdict(comparison),
        "regression": bool(comparison.regressions),
        "fail_on": comparison.limit,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "counts": {outcome.replace(" ", "_"): counts[outcome] for outcome in _OUTCOMES},
        "unlike": [asdict(each) for each in comparison.unlike],
        "noted": [asdict(each) for each in comparison.noted],
        "cells": [_cell(cell) for cell in comparison.cells],
        "only_a": _alone(comparison.only_a),
        "only_b": _alone(comparison.only_b),
    }


def _side(side: Side) -> dict[str, Any]:
    run = side.run
    return {"results": str(side.folder), "run": run.id, "sweep": run.sweep, "started": run.started}


def _identity(row: CellSpec) -> dict[str, Any]:
    return {name: getattr(row, name) for name in SPEC_COLUMNS}


def _cell(cell: Difference) -> dict[str, Any]:
    values = {name: value for name, value in vars(cell).items() if not isinstance(value, Row)}
    values["changes"] = [asdict(change) for change in cell.changes]
    identity_a, identity = _identity(cell.a), _identity(cell.b)
    return {
        **identity,
        "differs": {name: value for name, value in identity_a.items() if value != identity[name]},
        **values,
        "throttled_a": cell.a.throttled,
        "throttled_b": cell.b.throttled,
    }


def _alone(cells: Sequence[MeasuredCell]) -> list[dict[str, Any]]:
    return [{**_identity(cell.row), "status": cell.row.status} for cell in cells]
