"""Planned cells and their outcomes, for tests of stores and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.measure.result import CellOutcome, CellResult, EvaluationOutcome
from harness.measure.spec import CellSpec
from harness.runtimes.base import LayerResult
from harness.store.records import PlannedCell


def planned(key: str, accuracy_key: str | None = None, **more: Any) -> PlannedCell:
    """A cell with a policy called like its key; `more` are further fields of its specification."""
    values: dict[str, Any] = {
        "model": "m",
        "policy": key,
        "target": "host",
        "runtime": "engine",
        "toolchain": "zig",
        "threads": 1,
        "options": "",
        "emulated": False,
    }
    return PlannedCell(spec=CellSpec(**(values | more)), key=key, accuracy_key=accuracy_key)


def done(*, samples_ns: Sequence[int] = (), layers: Sequence[LayerResult] = (), **result: Any) -> CellOutcome:
    return CellOutcome(status="done", result=CellResult(**result), samples_ns=samples_ns, layers=layers)


def scores(**values: Any) -> EvaluationOutcome:
    return EvaluationOutcome(status="done", values=values)
