"""SQLite connections that wait for other processes and still handle signals.

SQLite's own wait sleeps in C, where Python handles no signals. These connections retry from Python: Ctrl-C
and SIGTERM work at once, and another thread can end the wait.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import console

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.2  # seconds between two attempts
_NAMED_AT_ONCE = 500  # SQLite before 3.32 takes 999 values
SILENT_SECONDS = 2.0  # after which the wait is logged


class RetryingConnection(sqlite3.Connection):
    """A connection on which `execute` waits while another process locks the database."""

    wait_seconds = 60.0  # seconds that each statement waits

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._hurry = threading.Event()

    def hurry(self) -> None:
        """Ends current and future waits. For any thread."""
        self._hurry.set()

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        """Like sqlite3's. Raises its OperationalError if the database stays locked."""
        try:
            return super().execute(*statement)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        return self._again(statement)

    def select_named(
        self, select: str, names: Sequence[bytes] | Sequence[str], *given: Any
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a query that ends in `IN`, for any number of names. `given` are its other values."""
        for start in range(0, len(names), _NAMED_AT_ONCE):
            part = names[start : start + _NAMED_AT_ONCE]
            yield from self.execute(f"{select} ({', '.join('?' * len(part))})", (*given, *part))

    def _again(self, statement: Any) -> sqlite3.Cursor:
        begun, pause, told = time.monotonic(), FIRST_PAUSE, False
        while True:
            self._hurry.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                return super().execute(*statement)
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - begun
                if not is_busy(error) or waited >= self.wait_seconds or self._hurry.is_set():
                    raise
            if waited >= SILENT_SECONDS and not told:
                told = True
                (_, _, path) = super().execute("PRAGMA database_list").fetchone()
                console.log(f"{path}: locked by another program; waiting for at most {self.wait_seconds:g} s")


def connect(path: Path | str, *, uri: bool = False) -> RetryingConnection:
    """A connection for any thread, without implicit transactions. `uri`: the path is a URI with options."""
    return sqlite3.connect(
        path, timeout=0, isolation_level=None, check_same_thread=False, factory=RetryingConnection, uri=uri
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process locks the database."""
    return error_code(error) & 0xFF == sqlite3.SQLITE_BUSY


def error_code(error: sqlite3.Error) -> int:
    """SQLite's extended error code; its last byte is the primary code. 0 for errors of the Python module."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code
