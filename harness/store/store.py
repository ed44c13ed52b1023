"""The results of a sweep: one SQLite file. Several processes may use it at once, and it survives SIGKILL.

The key of a result is the hash of everything that determines it. A process claims the key before it works on
the result. It writes the result and removes the claim in one transaction, so that a result is complete or
absent. Claims of dead owners are void (harness/store/owners.py).

Every result gets a revision when it is written. A run stores the last revision before its start. Another
process wrote the results with later revisions in the meantime; a run does not repeat these, even with
`--fresh`.
"""

from __future__ import annotations

import contextlib
import enum
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from harness import console
from harness.accuracy.picture_detections import PictureDetections
from harness.database import connect
from harness.measure.result import CellOutcome, EvaluationOutcome, Outcome
from harness.store.errors import StoreError, store_errors
from harness.store.owners import Owner, is_alive, remove_dead
from harness.store.reader import LAYER_COLUMNS, SPEC_COLUMNS, StoreReader, checked_format
from harness.store.records import PlannedCell, Run, Table
from harness.store.schema import FILE_NAME, VERSION, upgrade
from harness.store.views import make_views, views_are_current

__all__ = ["FILE_NAME", "Claim", "PlannedCell", "Run", "Store", "Table"]

_layer_values = attrgetter(*LAYER_COLUMNS)
MOST_VARIABLES = 999  # of one statement, for SQLite before 3.32
CLOSING_SECONDS = 1.0  # closing waits this long for another process


class Claim(enum.Enum):
    """The result of an attempt to claim a piece of work."""

    MINE = enum.auto()
    BUSY = enum.auto()  # a living process works on it
    SETTLED = enum.auto()  # it is done already


class Store(StoreReader):
    """The store of one results folder, which is created if missing. Its methods may be called from any
    thread. `file`: the database, if it is not the folder's own but, for example, a copy."""

    def __init__(self, folder: Path, *, file: Path | None = None) -> None:
        with store_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            database = connect(file or folder / FILE_NAME)
        super().__init__(folder, database)
        self._owners = folder / "owners"
        self._owner: Owner | None = None
        self._durable: bool | None = None  # the current setting of SQLite; None: unknown
        try:
            with store_errors(folder):
                self._open()
        except BaseException:
            self._database.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.hurry()
        self.close()

    def hurry(self) -> None:
        """From now on, statements do not wait for locks of other processes but raise StoreError at once."""
        self._database.hurry()

    def close(self) -> None:
        """Removes the claims of this process, and the claims and files of dead processes."""
        with self._lock:
            try:
                if self._owner:
                    # Without the owner the claims are void, even if a full disk prevents their removal.
                    self._owner.close()
                    self._owner = None
                    self._database.wait_seconds = CLOSING_SECONDS
                    with contextlib.suppress(StoreError):
                        self._clear()
            finally:
                self._database.close()

    def _clear(self) -> None:
        with self._transaction():
            owners = self._database.execute("SELECT DISTINCT owner FROM claims").fetchall()
            dead = [row for row in owners if not is_alive(self._owners, row[0])]
            self._database.executemany("DELETE FROM claims WHERE owner = ?", dead)
            remove_dead(self._owners)

    def begin_run(
        self,
        *,
        sweep: str,
        file: str,
        fresh: bool,
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Records the start of a sweep."""
        with self._transaction():
            baseline = self._last_revision()
            run = self._database.execute(
                "INSERT INTO runs (sweep, file, started, baseline, fresh) VALUES (?, ?, ?, ?, ?)",
                (sweep, file, time.time(), baseline, fresh),
            ).lastrowid
            self._database.executemany(
                "INSERT INTO environment VALUES (?, ?, ?)",
                [(run, name, value) for name, value in (environment or {}).items()],
            )
        assert run is not None
        return Run(id=run, baseline=baseline, fresh=fresh)

    def plan(self, run: Run, cells: Sequence[PlannedCell]) -> None:
        """Records the cells of a run."""
        with self._transaction():
            self._insert(
                "plan",
                ("run", "position", "cell", "accuracy", *SPEC_COLUMNS),
                [
                    (run.id, position, cell.key, cell.accuracy_key, *vars(cell.spec).values())
                    for position, cell in enumerate(cells)
                ],
            )

    def finish_run(self, run: Run) -> None:
        """Records the end of a sweep."""
        with self._transaction():
            self._database.execute("UPDATE runs SET finished = ? WHERE id = ?", (time.time(), run.id))

    def add_artifacts(self, run: Run, hashes: Mapping[str, str]) -> None:
        """Records the hashes of the input files of a run."""
        with self._transaction():
            self._database.executemany(
                "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?)",
                [(run.id, name, sha256) for name, sha256 in hashes.items()],
            )

    def settled(self, table: Table, key: str, run: Run) -> bool:
        """Whether a key has a result that this run does not have to repeat."""
        return self.settled_together([(table, key)], run)[0]

    def settled_together(self, work: Sequence[tuple[Table, str]], run: Run) -> list[bool]:
        """The same for several keys."""
        with self._access():
            return [self._settled(table, key, run) for table, key in work]

    def claim(self, table: Table, key: str, run: Run) -> Claim:
        """Tries to claim the work for a key. Takes over claims of dead owners."""
        return self.claim_together([(table, key)], run)[0]

    def claim_together(self, work: Sequence[tuple[Table, str]], run: Run) -> list[Claim]:
        """The same for several keys in one transaction. Some may succeed while others fail."""
        with self._transaction(durable=False):
            return [self._claim(table, key, run) for table, key in work]

    def release(self, key: str) -> None:
        """Removes a claim without a result."""
        with self._transaction(durable=False):
            self._release(key)

    def complete_cell(self, run: Run, key: str, outcome: Outcome) -> None:
        """Writes a cell's outcome with samples and layers, and removes its claim, in one transaction."""
        if not isinstance(outcome, CellOutcome):  # it ended before anything was measured
            outcome = CellOutcome(status=outcome.status, error=outcome.error)
        values = msgspec.to_builtins(outcome.result)
        known = {name: value for name, value in values.items() if value is not None}
        result = _dump(known)  # outside the transaction, which blocks other threads
        with self._transaction():
            revision = self._replace("cells", key)
            self._database.execute(
                "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?)",
                (revision, key, outcome.status, outcome.error, result, run.id, time.time()),
            )
            self._insert(
                "samples",
                ("revision", "position", "nanoseconds"),
                [(revision, position, sample) for position, sample in enumerate(outcome.samples_ns)],
            )
            self._insert(
                "layers",
                ("revision", *LAYER_COLUMNS),
                [(revision, *_layer_values(layer)) for layer in outcome.layers],
            )

    def complete_evaluation(self, run: Run, key: str, kind: str, outcome: Outcome) -> None:
        """The same for a computation on the host; `kind` is the kind of the evaluation."""
        if not isinstance(outcome, EvaluationOutcome):
            outcome = EvaluationOutcome(status=outcome.status, error=outcome.error)
        result = _dump(outcome.values)
        detections = [
            (position, picture.path, picture.sha256, _detections_text(picture))
            for position, picture in enumerate(outcome.detections)
        ]
        with self._transaction():
            revision = self._replace("evaluations", key)
            self._database.execute(
                "INSERT INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (revision, key, kind, outcome.status, outcome.error, result, run.id, time.time()),
            )
            self._insert(
                "detections",
                ("revision", "position", "path", "sha256", "found"),
                [(revision, *values) for values in detections],
            )

    def _settled(self, table: Table, key: str, run: Run) -> bool:
        row = self._database.execute(f"SELECT status, revision FROM {table} WHERE key = ?", (key,)).fetchone()
        if row is None:
            return False
        status, revision = row
        return bool(revision > run.baseline or (status == "done" and not run.fresh))

    def _claim(self, table: Table, key: str, run: Run) -> Claim:
        if self._settled(table, key, run):
            return Claim.SETTLED
        if self._owner is None:
            self._owner = Owner(self._owners)
        row = self._database.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
        if row and (row[0] == self._owner.name or is_alive(self._owners, row[0])):
            return Claim.BUSY
        self._database.execute(
            "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (key, self._owner.name, time.time())
        )
        return Claim.MINE

    def _release(self, key: str) -> None:
        self._database.execute("DELETE FROM claims WHERE key = ?", (key,))

    def _replace(self, table: Table, key: str) -> int:
        """Removes the claim and the result of a key. Returns the revision of the new result."""
        revision = self._last_revision() + 1
        self._release(key)
        self._database.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
        return revision

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Inserts many rows by one statement: `executemany` releases the interpreter's lock at every row, and
        each release wakes another board's thread."""
        names = ", ".join(f'"{column}"' for column in columns)
        row = f"({', '.join('?' * len(columns))})"
        most = MOST_VARIABLES // len(columns)
        for begin in range(0, len(rows), most):
            some = rows[begin : begin + most]
            self._database.execute(
                f"INSERT INTO {table} ({names}) VALUES {', '.join([row] * len(some))}",
                [value for values in some for value in values],
            )

    def _last_revision(self) -> int:
        (revision,) = self._database.execute(
            "SELECT max((SELECT coalesce(max(revision), 0) FROM cells), "
            "(SELECT coalesce(max(revision), 0) FROM evaluations))"
        ).fetchone()
        return int(revision)

    @contextlib.contextmanager
    def _transaction(self, *, durable: bool = True) -> Iterator[None]:
        """Commits the statements of the block, or rolls them back after an exception. If `durable`, a commit
        also survives a power cut. Claims need not: after a power cut their owners are dead.

        A signal may raise an exception in the main thread at any point. If it is before the block, nothing
        ends this generator while the exception is handled; the next transaction ends what was begun."""
        with self._access():
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if durable is not self._durable:
                self._database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # SQLite ends it on some errors, such as a full disk
                    self._database.execute("ROLLBACK")
                raise

    def _open(self) -> None:
        version = checked_format(self.folder, self._database)  # before anything is written there
        self._database.execute("PRAGMA journal_mode = WAL")
        if version < VERSION or not views_are_current(self._database):
            with self._transaction():
                self._convert()
        self._database.execute("PRAGMA foreign_keys = ON")

    def _convert(self) -> None:
        """Converts the tables to the current format, unless another process has done so meanwhile."""
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        shown = console.progress(f"converting results of format {version}", None)
        with shown if 0 < version < VERSION else contextlib.nullcontext():
            try:
                upgrade(self._database, version)
            except sqlite3.IntegrityError as error:
                raise self.damaged(str(error)) from None
        if not views_are_current(self._database):
            make_views(self._database)


def _detections_text(picture: PictureDetections) -> str:
    rows = [[each.name, each.confidence, *each.box] for each in picture.found]
    return json.dumps(rows, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _dump(result: Mapping[str, Any]) -> str:
    return json.dumps(result, allow_nan=False, sort_keys=True)
