"""Compares each cell with the fp32 cell that differs only in the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.measure.intervals import ratio_interval
from harness.report.result import Row

BASELINE = "fp32"
TOO_FEW_ROUNDS = "too few rounds"
_ITSELF = "this is the fp32 cell"


def compared_with_fp32(rows: Sequence[Row]) -> list[Row]:
    """The rows with their speed-up and change in accuracy against fp32."""
    baselines = _baselines(rows)
    return [
        replace(row, **_speed(row, base), **_accuracy(row, base)) for row, base in _pairs(rows, baselines)
    ]


def fp32_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The fp32 cell that differs from a row only in the policy."""
    return _baselines(rows).get(_same(row))


def speed_of(row: Row) -> float | None:
    """Frames per second; for an emulated cell, the predicted ones."""
    return row.predicted_fps if row.emulated else row.fps


def accuracy_reach(row: Row, other: Row) -> float | None:
    """Half the width of the 95 % interval of the difference of two rows' accuracies; None: unknown."""
    if not row.resampled or not other.resampled or row.resampled.draws != other.resampled.draws:
        return None
    if len(row.resampled.values) != len(other.resampled.values):
        return None
    from harness.accuracy.resampling import reach

    return reach(row.resampled.values, other.resampled.values)


def _baselines(rows: Sequence[Row]) -> dict[tuple[object, ...], Row]:
    return {_same(row): row for row in rows if row.policy == BASELINE}


def _pairs(rows: Sequence[Row], baselines: dict[tuple[object, ...], Row]) -> list[tuple[Row, Row | None]]:
    return [(row, baselines.get(_same(row))) for row in rows]


def _same(row: Row) -> tuple[object, ...]:
    where = (row.target, row.emulated, row.runtime, row.toolchain)
    return row.model, *where, row.threads, row.options, row.step


def _speed(row: Row, base: Row | None) -> dict[str, Any]:
    speed, other = speed_of(row), speed_of(base) if base else None
    if not speed or not other or base is None:
        return {"speedup_interval_unavailable_reason": _nothing_to_compare(row, base, "speed")}
    found: dict[str, Any] = {"speedup_vs_fp32": speed / other}
    if row is base:
        missing = _ITSELF
    elif row.emulated:
        missing = "predicted times have intervals, their ratio has none"
    elif row.mean_time and base.mean_time:
        return found | {"speedup_interval": ratio_interval(row.mean_time, base.mean_time)}
    else:
        missing = (base if row.mean_time else row).fps_interval_unavailable_reason or "no samples were kept"
    return found | {"speedup_interval_unavailable_reason": missing}


def _accuracy(row: Row, base: Row | None) -> dict[str, Any]:
    if row.accuracy is None or base is None or base.accuracy is None:
        return {"accuracy_change_interval_unavailable_reason": _nothing_to_compare(row, base, "accuracy")}
    change = row.accuracy - base.accuracy
    found: dict[str, Any] = {"accuracy_change": change}
    if row is base:
        missing = _ITSELF
    elif (reach := accuracy_reach(row, base)) is not None:
        return found | {"accuracy_change_interval": (change - reach, change + reach)}
    else:
        missing = (
            base if row.resampled else row
        ).accuracy_interval_unavailable_reason or "other pictures than fp32's"
    return found | {"accuracy_change_interval_unavailable_reason": missing}


def _nothing_to_compare(row: Row, base: Row | None, what: str) -> str:
    if base is None:
        return "there is no fp32 cell to compare with"
    return f"{'this cell' if row is base or base.status == 'done' else 'the fp32 cell'} has no {what}"
