"""An advice as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.advice.choice import Advice
from harness.advice.judgement import Judged
from harness.advice.proposals import Proposal
from harness.measure.spec import CellSpec
from harness.report.choice import memory_of, speed_interval_of
from harness.report.result import Row

_IDENTITY = [name for name in CellSpec.__dataclass_fields__ if name != "note"]


def document(
    advice: Advice, said: Sequence[str], unknown: Sequence[str], proposed: Sequence[Proposal]
) -> dict[str, Any]:
    """`said` is the answer in sentences."""
    limits, chosen = advice.limits, advice.recommended
    cited = {id(each) for each in advice.cited}
    as_fast = {id(each) for each in advice.as_fast}
    rows = [
        _judged(each) | {"cited": id(each) in cited, "as_fast": id(each) in as_fast} for each in advice.rows
    ]
    places = {id(each): place for place, each in enumerate(advice.rows)}
    return {
        "answer": " ".join(said),
        "limits": {
            "min_fps": limits.min_fps,
            "max_memory_bytes": limits.max_memory,
            "max_drop": limits.max_drop,
            "min_agreement": limits.min_agreement,
        },
        "recommendation": None if chosen is None else _judged(chosen),
        "nearest": [{"limit": near.kind, "row": places[id(near.judged)]} for near in advice.nearest],
        "unknown": list(unknown),
        "proposals": [{"what": each.what, "command": each.command or None} for each in proposed],
        "rows": [*rows, *map(_without_result, advice.without_result)],
    }


def _judged(each: Judged) -> dict[str, Any]:
    row = each.row
    return {
        **_identity(row),
        "measured_fps": None if row.emulated else row.fps,
        "predicted_fps": row.predicted_fps,
        "fps_interval": speed_interval_of(row),
        "memory_bytes": memory_of(row),
        "accuracy": row.accuracy,
        "accuracy_metric": row.accuracy_metric,
        "meets": each.meets,
        "checks": [
            {
                "limit": check.kind,
                "bound": check.limit,
                "value": check.value,
                "interval": check.interval,
                "met": check.met,
                "sure": check.sure,
                "unknown": check.unknown if check.met is None else None,
            }
            for check in each.checks
        ],
    }


def _without_result(row: Row) -> dict[str, Any]:
    return {**_identity(row), "meets": None, "checks": [], "cited": False, "as_fast": False}


def _identity(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _IDENTITY} | {"status": row.status, "error": row.error}
