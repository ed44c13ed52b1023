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
    """Evaluations by key, in a SQLite file that several processes and threads share."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError if the folder cannot be created, HarnessError if the file is of another kind."""
        self.path = folder / FILE_NAME
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
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS evaluations "
                "(key TEXT PRIMARY KEY, figures TEXT NOT NULL) WITHOUT ROWID"
            )

    def find(self, keys: Sequence[str]) -> dict[str, Evaluation]:
        """The evaluations that are kept, of those with these keys."""
        select = "SELECT key, figures FROM evaluations WHERE key IN"
        with self._readable():
            rows = dict(self._database.select_named(select, keys))
        return {key: Evaluation(**json.loads(figures)) for key, figures in rows.items()}

    def add(self, key: str, evaluation: Evaluation) -> None:
        """Keeps an evaluation. For any thread."""
        with self._readable():
            self._database.execute(
                "INSERT OR REPLACE INTO evaluations VALUES (?, ?)", (key, json.dumps(asdict(evaluation)))
            )

    def close(self) -> None:
        """Ends the connection."""
        self._database.close()

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HarnessError(
                f"{self.path}: {error}",
                hint="Remove the file if it is damaged: its evaluations can be repeated.",
            ) from None
