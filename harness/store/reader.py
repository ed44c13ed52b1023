"""Reads a store and checks the types of all values; damaged stores are errors that name the file."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Self, get_args, get_type_hints

import msgspec

from harness.accuracy.picture_detections import FARTHEST, Detection, PictureDetections
from harness.database import RetryingConnection
from harness.errors import ConfigurationError
from harness.measure.result import CellOutcome, CellResult, EvaluationOutcome, Outcome, Status
from harness.measure.spec import CellSpec
from harness.runtimes.base import LayerResult
from harness.store.errors import damaged, no_store, store_errors
from harness.store.records import PlannedCell, StoredRun, Table
from harness.store.schema import FILE_NAME, UPGRADES, VERSION, missing_columns

_Confidence = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Place = Annotated[float, msgspec.Meta(ge=-FARTHEST, le=FARTHEST)]
_StoredDetection = tuple[str, _Confidence, _Place, _Place, _Place, _Place]  # class, confidence, box
_KEYS = {"cell": str, "accuracy": str | None}


def columns_of(kind: type[Any]) -> dict[str, type | UnionType]:
    """The columns that hold the fields of a dataclass, with the types that SQLite returns for them."""
    kinds = get_type_hints(kind)
    return {field.name: int if kinds[field.name] is bool else kinds[field.name] for field in fields(kind)}


SPEC_COLUMNS = columns_of(CellSpec)
LAYER_COLUMNS = columns_of(LayerResult)


class StoreReader:
    """The results of one folder. Its methods may be called from any thread.

    They raise ConfigurationError if the file is damaged, and StoreError if the storage fails.
    """

    def __init__(self, folder: Path, database: RetryingConnection) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self._database = database
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def damaged(self, reason: str) -> ConfigurationError:
        """The error for a damaged result."""
        return damaged(self.folder, reason)

    def cell(self, key: str) -> CellOutcome | None:
        """The result of a cell, without samples and layers; None: there is none."""
        found = self._outcome("cells", key)
        if found is None:
            return None
        outcome, values = found
        try:
            result = msgspec.convert(values, CellResult)
        except msgspec.ValidationError as error:
            raise self.damaged(f"the result of {self._name(key)}: {error}") from None
        return CellOutcome(status=outcome.status, error=outcome.error, result=result)

    def evaluation(self, key: str) -> EvaluationOutcome | None:
        """The result of a computation on the host; None: there is none."""
        found = self._outcome("evaluations", key)
        if found is None:
            return None
        outcome, values = found
        return EvaluationOutcome(status=outcome.status, error=outcome.error, values=values)

    def status(self, table: Table, key: str) -> Status | None:
        """How a piece of work ended; None: it has no result."""
        found = self._outcome(table, key)
        return found[0].status if found else None

    def _outcome(self, table: Table, key: str) -> tuple[Outcome, dict[str, Any]] | None:
        rows = self._rows(
            f"SELECT status, error, result FROM {table} WHERE key = ?",
            (key,),
            {"status": str, "error": str, "result": str},
        )
        if not rows:
            return None
        status, error, result = rows[0]
        if status not in get_args(Status):
            raise self.damaged(f"the status {status!r} of a result is unknown")
        return Outcome(status=status, error=error), self._object(result)

    def _name(self, key: str) -> str:
        """The name of the first cell with a key, for messages."""
        columns = ("model", "policy")
        rows = self._rows(
            f"SELECT {', '.join(columns)} FROM plan WHERE cell = ? LIMIT 1",
            (key,),
            dict.fromkeys(columns, str),
        )
        return " ".join(rows[0]) if rows else "a cell"

    def samples_ns(self, key: str) -> list[int]:
        """The raw samples of a cell."""
        rows = self._rows(
            "SELECT nanoseconds FROM samples JOIN cells USING (revision) WHERE key = ? ORDER BY position",
            (key,),
            {"nanoseconds": int},
        )
        if any(nanoseconds <= 0 for (nanoseconds,) in rows):
            raise self.damaged("a sample is not longer than 0 ns")
        return [nanoseconds for (nanoseconds,) in rows]

    def layers(self, key: str) -> list[LayerResult]:
        """The profile of a cell."""
        columns = ", ".join(f'"{column}"' for column in LAYER_COLUMNS)
        rows = self._rows(
            f'SELECT {columns} FROM layers JOIN cells USING (revision) WHERE key = ? ORDER BY "index"',
            (key,),
            LAYER_COLUMNS,
        )
        return [LayerResult(**dict(zip(LAYER_COLUMNS, row, strict=True))) for row in rows]

    def detections(self, key: str) -> list[PictureDetections]:
        """What a detector found in each picture of an evaluation; none of others, and of older versions."""
        columns = ("path", "sha256", "found")
        rows = self._rows(
            f"SELECT {', '.join(f'detections.{column}' for column in columns)} FROM detections "
            "JOIN evaluations USING (revision) WHERE key = ? ORDER BY position",
            (key,),
            dict.fromkeys(columns, str),
        )
        try:
            return [
                PictureDetections(
                    path=path,
                    sha256=sha256,
                    found=[
                        Detection(name=row[0], confidence=row[1], box=row[2:])
                        for row in msgspec.json.decode(found, type=list[_StoredDetection])
                    ],
                )
                for path, sha256, found in rows
            ]
        except msgspec.DecodeError as error:
            raise self.damaged(f"the detections in a picture: {error}") from None

    def has_results(self, target: str) -> bool:
        """Whether any cell of a target was ever measured."""
        return bool(
            self._rows(
                "SELECT 1 AS found FROM plan JOIN cells ON cells.key = plan.cell "
                "WHERE plan.target = ? AND cells.status = 'done' LIMIT 1",
                (target,),
                {"found": int},
            )
        )

    def last_run(self) -> tuple[int, str] | None:
        """The number and the sweep's name of the last run that got as far as a plan."""
        rows = self._rows(
            "SELECT id, sweep FROM runs WHERE id IN (SELECT run FROM plan) ORDER BY id DESC LIMIT 1",
            (),
            {"id": int, "sweep": str},
        )
        return (rows[0][0], rows[0][1]) if rows else None

    def runs(self) -> list[StoredRun]:
        """All runs that got as far as a plan, the earliest first."""
        kinds = {"id": int, "sweep": str, "started": float}
        query = "SELECT id, sweep, started FROM runs WHERE id IN (SELECT run FROM plan) ORDER BY id"
        return [StoredRun(id=run, sweep=sweep, started=at) for run, sweep, at in self._rows(query, (), kinds)]

    def measured_in(self, key: str) -> int | None:
        """The run that a cell's result is from; None: it has no result."""
        rows = self._rows("SELECT run FROM cells WHERE key = ?", (key,), {"run": int})
        return rows[0][0] if rows else None

    def planned(self, run: int) -> list[PlannedCell]:
        """The cells of a run."""
        columns = _KEYS | SPEC_COLUMNS
        found = []
        for key, accuracy_key, *row in self._rows(
            f"SELECT {', '.join(columns)} FROM plan WHERE run = ? ORDER BY position", (run,), columns
        ):
            values = dict(zip(SPEC_COLUMNS, row, strict=True))
            spec = CellSpec(**(values | {"emulated": bool(values["emulated"])}))
            found.append(PlannedCell(spec=spec, key=key, accuracy_key=accuracy_key))
        return found

    def environment(self, run: int) -> dict[str, str]:
        """Facts about the machine at the start of a run."""
        rows = self._rows(
            "SELECT name, value FROM environment WHERE run = ?", (run,), {"name": str, "value": str}
        )
        return dict(rows)

    def artifacts(self, run: int) -> dict[str, str]:
        """The SHA-256 of the input files of a run, by their names."""
        rows = self._rows(
            "SELECT name, sha256 FROM artifacts WHERE run = ?", (run,), {"name": str, "sha256": str}
        )
        return dict(rows)

    def sweep_file(self, run: int) -> str:
        """The path of a run's sweep file, as it was given; "" if there is no such run."""
        rows = self._rows("SELECT file FROM runs WHERE id = ?", (run,), {"file": str})
        return rows[0][0] if rows else ""

    def _rows(
        self, query: str, values: Sequence[object], kinds: Mapping[str, type | UnionType]
    ) -> list[tuple[Any, ...]]:
        """The rows of a query, with checked types: SQLite stores any type in any column."""
        with self._access():
            rows = self._database.execute(query, values).fetchall()
        wanted = tuple(kinds.values())
        for row in rows:
            if not all(map(isinstance, row, wanted)):
                column, value = next(
                    (column, value)
                    for (column, kind), value in zip(kinds.items(), row, strict=True)
                    if not isinstance(value, kind)
                )
                raise self.damaged(f"the column {column} has a value of type {type(value).__name__}")
        return rows

    def _object(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text, parse_float=_finite, parse_constant=_finite)
            if "\\ud" in text.lower():  # surrogates, which cannot be printed
                found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"a result is not JSON ({error})") from None
        if not isinstance(found, dict):
            raise self.damaged("a result is not a JSON object")
        return found

    @contextlib.contextmanager
    def _access(self) -> Iterator[None]:
        with self._lock, store_errors(self.folder):
            yield


def checked_format(folder: Path, database: sqlite3.Connection) -> int:
    """The format of a database, 0 if it is empty. Raises ConfigurationError if it is not a store or a newer
    harness wrote it. SQLite's errors pass."""
    database.execute("BEGIN")
    try:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        named = database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        known = version in UPGRADES or version == VERSION
        missing = missing_columns(database, version) if version and known else []
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")
    if not known:
        newer = version > VERSION
        raise ConfigurationError(
            f"{folder / FILE_NAME}: unsupported format {version}; this version of harness reads format "
            f"{VERSION}",
            hint="Update harness: a newer version wrote this file. Or name another folder."
            if newer
            else "Name another folder.",
        )
    if (version == 0) == bool(named):
        raise no_store(folder, "another program's database")
    if missing:
        raise no_store(folder, f"another program's database: it lacks {', '.join(missing[:3])}")
    return int(version)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value
