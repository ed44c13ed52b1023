"""What an evaluation of an assignment found, and the file that keeps it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.accuracy.sqnr import decibels
from harness.database import connect
from harness.errors import HarnessError
from harness.resources import cache_directory
from harness.store.owners import Owner, is_alive, remove_dead
from harness.store.store import Claim

FILE_NAME = "evaluations.sqlite"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An assignment's outputs compared with fp32's, over all pictures."""

    similarity: float  # to fp32: of detections, weighted by confidence; of other outputs, 1 / (1 + noise)
    agreement: float  # with fp32's own detections, classes or, of outputs that nothing reads, values
    noise: float  # power of the outputs' difference from fp32's, as a fraction of their own power
    accuracy: float | None = None  # mAP@0.5 or top-1, as a fraction; None without labels

    @property
    def sqnr_db(self) -> float | None:
        """Signal to quantisation-noise ratio of the outputs; None without noise."""
        return decibels(1.0, self.noise)


def default_folder() -> Path:
    """The folder of evaluations that all models share."""
    return cache_directory() / "evaluations"


class EvaluationFile:
    """Evaluations by key, in a SQLite file that several processes share. A process claims a key before it
    evaluates, so that no other one does the same meanwhile. Claims of dead processes are void."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError if the folder cannot be created, HarnessError if the file is of another kind."""
        self.path = folder / FILE_NAME
        self._owners = folder / "owners"
        self._owner: Owner | None = None
        folder.mkdir(parents=True, exist_ok=True)
        with self._readable():
            self._database = connect(self.path)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with self._readable():
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")  # only a power failure loses the last ones
            for table, value in (("evaluations", "figures"), ("claims", "owner")):
                self._database.execute(
                    f"CREATE TABLE IF NOT EXISTS {table} "
                    f"(key TEXT PRIMARY KEY, {value} TEXT NOT NULL) WITHOUT ROWID"
                )

    def find(self, keys: Sequence[str]) -> dict[str, Evaluation]:
        """The evaluations that are kept, of those with these keys."""
        select = "SELECT key, figures FROM evaluations WHERE key IN"
        with self._readable():
            rows = dict(self._database.select_named(select, keys))
        return {key: Evaluation(**json.loads(figures)) for key, figures in rows.items()}

    def claim(self, key: str) -> Claim:
        """Tries to claim a key, until its evaluation is added or the claim is released."""
        with self._transaction():
            if self._database.execute("SELECT 1 FROM evaluations WHERE key = ?", (key,)).fetchone():
                return Claim.SETTLED
            if self._owner is None:
                remove_dead(self._owners)
                self._owner = Owner(self._owners)
            row = self._database.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
            if row and is_alive(self._owners, row[0]):
                return Claim.BUSY
            self._database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", (key, self._owner.name))
            return Claim.MINE

    def release(self) -> None:
        """Gives up all claims of keys whose evaluations were not added."""
        if self._owner is not None:
            with self._transaction():
                self._database.execute("DELETE FROM claims WHERE owner = ?", (self._owner.name,))

    def add(self, key: str, evaluation: Evaluation) -> None:
        """Keeps an evaluation, and ends its claim."""
        with self._transaction():
            self._database.execute(
                "INSERT OR REPLACE INTO evaluations VALUES (?, ?)", (key, json.dumps(asdict(evaluation)))
            )
            self._database.execute("DELETE FROM claims WHERE key = ?", (key,))

    def close(self) -> None:
        """Ends the connection. Claims that are left are void from now on."""
        if self._owner is not None:
            self._owner.close()
        self._database.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._readable():
            if self._database.in_transaction:  # a signal's exception may have come before the block
                self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HarnessError(
                f"{self.path}: {error}",
                hint="Remove the file if it is damaged: its evaluations can be repeated.",
            ) from None
