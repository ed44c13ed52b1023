"""Stores as earlier versions wrote them."""

from __future__ import annotations

_RUNS = """
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, sweep TEXT NOT NULL, file TEXT NOT NULL, started REAL NOT NULL, finished REAL,
  baseline INTEGER NOT NULL, fresh INTEGER NOT NULL
);
CREATE TABLE plan (
  run INTEGER NOT NULL REFERENCES runs(id), position INTEGER NOT NULL, cell TEXT NOT NULL, accuracy TEXT,
  model TEXT NOT NULL, policy TEXT NOT NULL, target TEXT NOT NULL, runtime TEXT NOT NULL,
  toolchain TEXT NOT NULL, threads INTEGER NOT NULL, options TEXT NOT NULL, emulated INTEGER NOT NULL,
  step TEXT NOT NULL, note TEXT NOT NULL,
  PRIMARY KEY (run, position)
) WITHOUT ROWID;
"""
_ABOUT_RUNS = """
CREATE TABLE environment (
  run INTEGER NOT NULL REFERENCES runs(id), name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE artifacts (
  run INTEGER NOT NULL REFERENCES runs(id), name TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, since REAL NOT NULL) WITHOUT ROWID;
"""
# The tables of results as they were in format 4, with one result each.
FORMAT_4 = f"""
{_RUNS}
CREATE TABLE cells (
  key TEXT PRIMARY KEY, status TEXT NOT NULL, error TEXT NOT NULL, result TEXT NOT NULL,
  revision INTEGER NOT NULL, run INTEGER NOT NULL REFERENCES runs(id), finished REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE samples (
  cell TEXT NOT NULL REFERENCES cells(key), position INTEGER NOT NULL, nanoseconds INTEGER NOT NULL,
  PRIMARY KEY (cell, position)
) WITHOUT ROWID;
CREATE TABLE layers (
  cell TEXT NOT NULL REFERENCES cells(key), "index" INTEGER NOT NULL, type TEXT NOT NULL,
  precision TEXT NOT NULL, executed TEXT NOT NULL, isa TEXT NOT NULL, algorithm TEXT NOT NULL,
  nanoseconds INTEGER NOT NULL, conversion_nanoseconds INTEGER NOT NULL, bytes INTEGER NOT NULL,
  predicted_nanoseconds INTEGER, PRIMARY KEY (cell, "index")
) WITHOUT ROWID;
CREATE TABLE evaluations (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, error TEXT NOT NULL, result TEXT NOT NULL,
  revision INTEGER NOT NULL, run INTEGER NOT NULL REFERENCES runs(id), finished REAL NOT NULL
) WITHOUT ROWID;
{_ABOUT_RUNS}
CREATE INDEX cells_by_revision ON cells (revision);
CREATE INDEX evaluations_by_revision ON evaluations (revision);
PRAGMA user_version = 4;
INSERT INTO runs VALUES (1, 's', 's.yaml', 1.0, 2.0, 0, 0);
INSERT INTO cells VALUES ('other', 'failed', 'because', '{{}}', 1, 1, 1.0);
INSERT INTO cells VALUES ('k', 'done', '', '{{"fps": 2.5}}', 3, 1, 1.5);
INSERT INTO samples VALUES ('k', 0, 5), ('k', 1, 3), ('k', 2, 4);
INSERT INTO layers VALUES ('k', 3, 'convolutional', 'int8', 'int8', 'avx2', 'gemm', 5, 2, 7, NULL);
INSERT INTO evaluations VALUES ('e', 'accuracy', 'done', '', '{{"top1": 0.5}}', 2, 1, 1.2);
"""

# Format 5: a cell with all keys that have other names now.
FORMAT_5 = f"""
{_RUNS}
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
  algorithm TEXT NOT NULL, nanoseconds INTEGER NOT NULL, conversion_nanoseconds INTEGER NOT NULL,
  bytes INTEGER NOT NULL, predicted_nanoseconds INTEGER, PRIMARY KEY (revision, "index")
) WITHOUT ROWID;
CREATE TABLE evaluations (
  revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, status TEXT NOT NULL,
  error TEXT NOT NULL, result TEXT NOT NULL, run INTEGER NOT NULL REFERENCES runs(id), finished REAL NOT NULL
);
{_ABOUT_RUNS}
CREATE VIEW report_layers AS SELECT layers.nanoseconds / 1e6 AS ms FROM layers;
PRAGMA user_version = 5;
INSERT INTO runs VALUES (1, 's', 's.yaml', 1.0, 2.0, 0, 0);
INSERT INTO plan VALUES (1, 0, 'k', 'e', 'm', 'int8', 'host', 'engine', 'zig', 1, '', 0, '', '');
INSERT INTO cells VALUES (3, 'k', 'done', '', '{{
  "fps": 2.5, "rounds": [3], "exact": true, "digests": ["ab"],
  "instructions_missing": "no counter", "prediction_missing": "no LLVM",
  "course": [{{"seconds": 1.5, "fps": 2.5, "clock": null, "celsius": 48.3}}],
  "conditions": {{
    "samples": 4, "reasons": [], "warnings": ["loud"], "throttled": false,
    "cooling": [{{
      "outcome": "cool", "limit_celsius": 65.0, "first_celsius": 40.0, "last_celsius": 40.0,
      "waited_seconds": 0.0
    }}],
    "governor": [{{"governor": "performance", "held": false, "reason": "no sudo", "cure": "Ask."}}]
  }}
}}', 1, 1.5);
INSERT INTO samples VALUES (3, 0, 5), (3, 1, 3), (3, 2, 4);
INSERT INTO layers VALUES (3, 3, 'convolutional', 'int8', 'int8', 'avx2', 'gemm', 5, 2, 7, NULL);
INSERT INTO evaluations VALUES (2, 'e', 'accuracy', 'done', '', '{{"top1": 0.5}}', 1, 1.2);
"""

# Format 6: layers without the parts of their predicted times, and no detections.
FORMAT_6 = f"""
{_RUNS}
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
  predicted_ns INTEGER, PRIMARY KEY (revision, "index")
) WITHOUT ROWID;
CREATE TABLE evaluations (
  revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, status TEXT NOT NULL,
  error TEXT NOT NULL, result TEXT NOT NULL, run INTEGER NOT NULL REFERENCES runs(id), finished REAL NOT NULL
);
{_ABOUT_RUNS}
PRAGMA user_version = 6;
INSERT INTO runs VALUES (1, 's', 's.yaml', 1.0, 2.0, 0, 0);
INSERT INTO cells VALUES (3, 'k', 'done', '', '{{"fps": 2.5}}', 1, 1.5);
INSERT INTO layers VALUES (3, 3, 'convolutional', 'int8', 'int8', 'avx2', 'gemm', 5, 2, 7, 9);
INSERT INTO evaluations VALUES (2, 'e', 'accuracy', 'done', '', '{{"map50": 0.5}}', 1, 1.2);
"""
