"""Views of a store for people who query it: plain columns, one row for each cell, layer or sample of a run.

Their columns stay as docs/reference.md names them; new ones may be added.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

_IDENTITY = ("model", "policy", "target", "runtime", "toolchain", "threads", "options", "step", "emulated")
_FROM_RESULT = (
    *("fps", "p50_ms", "p90_ms", "p99_ms", "peak_rss_bytes", "arena_bytes", "weight_bytes"),
    *("instructions", "predicted_ms", "predicted_low_ms", "predicted_high_ms", "bytes_moved"),
    *("isa", "board", "throttled", "digest"),
)
_STATUS = """CASE
    WHEN cells.status = 'done' AND plan.accuracy IS NOT NULL THEN coalesce(evaluations.status, 'pending')
    ELSE coalesce(cells.status, 'pending')
  END"""


def _place(columns: Sequence[str] = _IDENTITY) -> str:
    return ", ".join(["plan.run", "plan.position AS cell", *(f"plan.{column}" for column in columns)])


_VIEWS = {
    "report_cells": f"""
SELECT {_place()},
  plan.run = (SELECT max(run) FROM plan) AS latest, runs.sweep, {_STATUS} AS status,
  CASE
    WHEN cells.error <> '' THEN cells.error
    WHEN cells.status = 'done' AND evaluations.error <> '' THEN 'accuracy: ' || evaluations.error
    ELSE ''
  END AS error,
  {", ".join(f"json_extract(cells.result, '$.{name}') AS {name}" for name in _FROM_RESULT)},
  CASE
    WHEN cells.status = 'done' AND evaluations.status = 'done'
    THEN coalesce(
      json_extract(evaluations.result, '$.map50'),
      json_extract(evaluations.result, '$.top1'),
      json_extract(evaluations.result, '$.agreement')
    )
  END AS accuracy,
  cells.finished
FROM plan
JOIN runs ON runs.id = plan.run
LEFT JOIN cells ON cells.key = plan.cell
LEFT JOIN evaluations ON evaluations.key = plan.accuracy""",
    "report_layers": f"""
SELECT {_place()},
  layers."index" AS layer, layers.type, layers.precision, layers.executed, layers.isa, layers.algorithm,
  layers.ns / 1e6 AS ms, layers.conversion_ns / 1e6 AS conversion_ms,
  layers.predicted_ns / 1e6 AS predicted_ms,
  layers.predicted_compute_ns / 1e6 AS predicted_compute_ms,
  layers.predicted_activation_ns / 1e6 AS predicted_activation_ms,
  layers.predicted_conversion_ns / 1e6 AS predicted_conversion_ms,
  layers.predicted_memory_ns / 1e6 AS predicted_memory_ms, layers.bytes
FROM plan JOIN cells ON cells.key = plan.cell JOIN layers USING (revision)""",
    "report_samples": f"""
SELECT {_place()}, samples.position AS sample, samples.nanoseconds / 1e6 AS ms
FROM plan JOIN cells ON cells.key = plan.cell JOIN samples USING (revision)""",
}
_STATEMENTS = {name: f"CREATE VIEW {name} AS {select.strip()}" for name, select in _VIEWS.items()}


def views_are_current(database: sqlite3.Connection) -> bool:
    """Whether a database has the views of this version."""
    found = dict(database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'view'"))
    return all(found.get(name) == statement for name, statement in _STATEMENTS.items())


def make_views(database: sqlite3.Connection) -> None:
    """Creates the views, or replaces those of an earlier version. Runs within the open transaction."""
    for name, statement in _STATEMENTS.items():
        database.execute(f"DROP VIEW IF EXISTS {name}")
        database.execute(statement)
