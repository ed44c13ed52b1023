"""Rows of reports for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.report.result import Report, Row


def row(policy: str = "fp32", **more: Any) -> Row:
    values: dict[str, Any] = {
        "model": "digits",
        "policy": policy,
        "target": "host",
        "runtime": "engine",
        "toolchain": "zig",
        "threads": 1,
        "options": "",
        "emulated": False,
        "status": "done",
        "fps": 100.0,
        "p50_ms": 10.0,
        "p90_ms": 11.0,
        "peak_rss_bytes": 5 << 20,
        "arena_bytes": 1 << 20,
        "weight_bytes": 1 << 20,
        "accuracy": 0.9,
        "accuracy_metric": "map50",
    }
    return Row(**(values | more))


def emulated(policy: str = "fp32", **more: Any) -> Row:
    return row(policy, **({"target": "pi4", "emulated": True, "instructions": 10**9} | more))


def report(*rows: Row, folder: Path = Path()) -> Report:
    return Report(sweep="s", folder=folder, environment={"kernel": "Linux <6> | x"}, rows=rows)
