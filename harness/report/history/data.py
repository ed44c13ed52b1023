"""A history as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.report.history.history import History, verdict
from harness.report.history.series import Point, Series
from harness.report.result import VERSION
from harness.store.reader import SPEC_COLUMNS


def data(found: History) -> dict[str, Any]:
    """The history as JSON values."""
    return {
        "schema_version": VERSION,
        "verdict": verdict(found),
        "regression": bool(found.regressions),
        "fail_on": found.limit,
        "runs": [
            {
                "name": run.name,
                "run": run.side.run.id,
                "sweep": run.side.run.sweep,
                "started": run.side.run.started,
                "commit": run.commit or None,
            }
            for run in found.runs
        ],
        "cells": [_cell(found, series) for series in found.series],
    }


def _cell(found: History, series: Series) -> dict[str, Any]:
    row = series.last.row
    return {
        **{name: getattr(row, name) for name in SPEC_COLUMNS},
        "board": row.board,
        "conditions": series.conditions,
        "figure": series.figure,
        "first": series.points[0].value,
        "last": series.points[-1].value,
        "change": series.change,
        "slowdown_vs_best": series.slowdown,
        "regression": found.is_regression(series),
        "reason": series.reason,
        "points": [_point(point) for point in series.points],
        "steps": [
            {
                "run": series.points[step.point].run,
                "before": step.before,
                "after": step.after,
                "ratio": step.ratio,
                "noted": [asdict(each) for each in step.noted],
                "changes": [asdict(each) for each in step.changes],
            }
            for step in series.steps
        ],
    }


def _point(point: Point) -> dict[str, Any]:
    return {"run": point.run, "value": point.value, "throttled": point.cell.row.throttled}
