"""The tables of a store, and the conversion of tables of older versions."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from functools import cache

FILE_NAME = "results.sqlite"
VERSION = 7

_RUNS = """
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, sweep TEXT NOT NULL, file TEXT NOT NULL, started REAL NOT NULL, finished REAL,
  baseline INTEGER NOT NULL, fresh INTEGER NOT NULL
);
-- The cells of a run, in the report's order.
CREATE TABLE plan (
  run INTEGER NOT NULL REFERENCES runs(id), position INTEGER NOT NULL, cell TEXT NOT NULL, accuracy TEXT,
  model TEXT NOT NULL, policy TEXT NOT NULL, target TEXT NOT NULL, runtime TEXT NOT NULL,
  toolchain TEXT NOT NULL, threads INTEGER NOT NULL, options TEXT NOT NULL, emulated INTEGER NOT NULL,
  step TEXT NOT NULL, note TEXT NOT NULL,
  PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE TABLE environment (
  run INTEGER NOT NULL REFERENCES runs(id), name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID;
-- The hash of every input file of a run.
CREATE TABLE artifacts (
  run INTEGER NOT NULL REFERENCES runs(id), name TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, since REAL NOT NULL) WITHOUT ROWID;
"""
# Samples and layers have the revision of their result as key: they are appended to their tables, so that
# writing a result changes few pages of the file.
_RESULTS = """
CREATE TABLE cells (
  revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, status TEXT NOT NULL, error TEXT NOT NULL,
  result TEXT NOT NULL, run INTEGER NOT NULL REFERENCES runs(id), finished REAL NOT NULL
);
CREATE TABLE samples (
  revision INTEGER NOT NULL REFERENCES cells(revision) ON DELETE CASCADE, position INTEGER NOT NULL,
  nanoseconds INTEGER NOT NULL, PRIMARY KEY (revision, position)
) WITHOUT ROWID;
CREATE TABLE layers (
  revision INTEGER NOT NULL REFERENCES cells(revision) ON DELETE CASCADE, "index" INTEGER NOT NULL,
  type TEXT NOT NULL, precision TEXT NOT NULL, executed TEXT NOT NULL, isa TEXT NOT NULL,
  algorithm TEXT NOT NULL, ns INTEGER NOT NULL, conversion_ns INTEGER NOT NULL, bytes INTEGER NOT NULL,
  predicted_ns INTEGER, predicted_compute_ns INTEGER, predicted_activation_ns INTEGER,
  predicted_conversion_ns INTEGER, predicted_memory_ns INTEGER, PRIMARY KEY (revision, "index")
) WITHOUT ROWID;
-- Results that are computed once on the host: calibrations, accuracies, and digests to compare boards with.
CREATE TABLE evaluations (
  revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, status TEXT NOT NULL,
  error TEXT NOT NULL, result TEXT NOT NULL, run INTEGER NOT NULL REFERENCES runs(id), finished REAL NOT NULL
);
"""
# What a detector found in each picture of an evaluation: JSON, [class, confidence, left, top, width, height].
_DETECTIONS = """
CREATE TABLE detections (
  revision INTEGER NOT NULL REFERENCES evaluations(revision) ON DELETE CASCADE, position INTEGER NOT NULL,
  path TEXT NOT NULL, sha256 TEXT NOT NULL, found TEXT NOT NULL, PRIMARY KEY (revision, position)
) WITHOUT ROWID;
"""
_KEPT = ("cells", "samples", "layers", "evaluations")
# In format 4, samples and layers had the key of their result instead of its revision.
_FROM_4 = f"""
{"".join(f"ALTER TABLE {table} RENAME TO old_{table};" for table in _KEPT)}
{_RESULTS}
INSERT INTO cells SELECT revision, key, status, error, result, run, finished FROM old_cells;
INSERT INTO samples SELECT revision, position, nanoseconds
  FROM old_samples JOIN old_cells ON key = cell;
INSERT INTO layers (
    revision, "index", type, precision, executed, isa, algorithm, ns, conversion_ns, bytes, predicted_ns
  ) SELECT
    revision, "index", type, precision, executed, isa, algorithm, nanoseconds, conversion_nanoseconds, bytes,
    predicted_nanoseconds
  FROM old_layers JOIN old_cells ON key = cell;
INSERT INTO evaluations SELECT revision, key, kind, status, error, result, run, finished FROM old_evaluations;
{";".join(f"DROP TABLE old_{table}" for table in reversed(_KEPT))}
"""
_RENAMED = {  # keys of results since format 5
    "course": "time_series",
    "exact": "bit_exact",
    "instructions_missing": "instructions_unavailable_reason",
    "prediction_missing": "prediction_unavailable_reason",
}
_RENAME_KEYS = "UPDATE cells SET result = with_new_keys(result)"
# Format 5 spelled out the unit of the times of layers.
_FROM_5 = f"""
DROP VIEW IF EXISTS report_layers;
ALTER TABLE layers RENAME COLUMN nanoseconds TO ns;
ALTER TABLE layers RENAME COLUMN conversion_nanoseconds TO conversion_ns;
ALTER TABLE layers RENAME COLUMN predicted_nanoseconds TO predicted_ns;
{_RENAME_KEYS}
"""
# Format 6 had neither detections nor the parts of predicted times.
_FROM_6 = f"""
ALTER TABLE layers ADD COLUMN predicted_compute_ns INTEGER;
ALTER TABLE layers ADD COLUMN predicted_activation_ns INTEGER;
ALTER TABLE layers ADD COLUMN predicted_conversion_ns INTEGER;
ALTER TABLE layers ADD COLUMN predicted_memory_ns INTEGER;
{_DETECTIONS}
"""
UPGRADES = {
    0: _RUNS + _RESULTS + _DETECTIONS,
    4: f"{_FROM_4};{_DETECTIONS};{_RENAME_KEYS}",
    5: f"{_FROM_5};{_FROM_6}",
    6: _FROM_6,
}  # by the format that they convert


def upgrade(database: sqlite3.Connection, version: int) -> None:
    """Creates the tables of VERSION in an empty database (`version` 0), or converts those of an older format.
    Runs within the open transaction."""
    if version != VERSION:
        database.create_function("with_new_keys", 1, _with_new_keys, deterministic=True)
        for statement in UPGRADES[version].split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {VERSION}")


def _with_new_keys(text: str) -> str:
    """A result with the keys of this version. Damaged results stay as they are, for the reader to report."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(values, dict):
        return text
    conditions = values.get("conditions")
    governors = conditions.get("governor") if isinstance(conditions, dict) else None
    for governor in governors if isinstance(governors, list) else ():
        if isinstance(governor, dict) and "cure" in governor:
            governor["hint"] = governor.pop("cure")
    return json.dumps({_RENAMED.get(key, key): value for key, value in values.items()}, sort_keys=True)


def missing_columns(database: sqlite3.Connection, version: int) -> list[str]:
    """The missing columns of a database, as table.column; for older formats only missing tables."""
    found = _columns(database)
    if version == VERSION:
        return sorted(_all_columns() - found)
    tables = {column.partition(".")[0] for column in found}
    return [table for table in ("runs", "plan", *_KEPT) if table not in tables]


@cache
def _all_columns() -> set[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        upgrade(database, 0)
        return _columns(database)


def _columns(database: sqlite3.Connection) -> set[str]:
    return {
        f"{table}.{column}"
        for table, column in database.execute(
            "SELECT tables.name, columns.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) "
            "AS columns WHERE tables.type = 'table'"
        )
    }
