"""Errors of SQLite and of the system as errors about a results folder."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.database import error_code, is_busy
from harness.errors import ConfigurationError, HarnessError, hint_of
from harness.store.schema import FILE_NAME

_AGAIN = "Stored results are kept: the same command continues with the missing ones."


class StoreError(HarnessError):
    """The storage of a store failed. No board is at fault, and the sweep cannot continue."""


@contextlib.contextmanager
def store_errors(folder: Path, *, reading: bool = False) -> Iterator[None]:
    """Turns SQLite's errors and OSError into StoreError if the storage is full or fails, and into
    ConfigurationError if the folder cannot be used or holds no store. Other errors pass: they are bugs.
    `reading`: the caller only reads.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (_no_room(folder) if full else _unusable(folder, error, reading)) from None
    except sqlite3.Error as error:
        meant = _meaning(folder, error, reading)
        if meant is None:
            raise
        raise meant from None


def _meaning(folder: Path, error: sqlite3.Error, reading: bool) -> HarnessError | None:
    code = error_code(error)
    # SQLite gives no reason if the shared-memory file beside the database cannot grow.
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
        return _no_room(folder)
    if is_busy(error):
        return StoreError(
            f"{folder}: results are locked by another program",
            hint=f"End that program (`fuser -v` shows it). {_AGAIN}",
        )
    kind = code & 0xFF
    if kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL):
        return StoreError(
            f"{folder}: results cannot be read or written: {error}", hint=f"Check that storage. {_AGAIN}"
        )
    if kind in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return _unusable(folder, error, reading)
    if kind == sqlite3.SQLITE_NOTADB:
        return no_store(folder, str(error))
    if kind == sqlite3.SQLITE_CORRUPT:
        return damaged(folder, str(error))
    if code == 0 and "decode to UTF-8" in str(error):  # Python's words, with the text itself
        return damaged(folder, "a text in it is not UTF-8")
    return None


def no_store(folder: Path, reason: str) -> ConfigurationError:
    """The error for a file that harness did not write."""
    return ConfigurationError(
        f"{folder / FILE_NAME}: not a results file of harness ({reason})",
        hint="Name another folder, or move this file away.",
    )


def damaged(folder: Path, reason: str) -> ConfigurationError:
    """The error for a damaged store."""
    return ConfigurationError(
        f"{folder / FILE_NAME}: damaged: {reason}",
        hint="Restore a copy of this file, or move it away and run the sweep again.",
    )


def _no_room(folder: Path) -> StoreError:
    return StoreError(f"{folder}: no space left for results", hint=f"Free some space. {_AGAIN}")


def _unusable(folder: Path, error: OSError | sqlite3.Error, reading: bool) -> ConfigurationError:
    hint = "Name a writable folder with --results."
    if isinstance(error, sqlite3.Error):
        hint = "Name another folder; SQLite accepts paths of up to about 500 bytes."
    elif known := hint_of(error):
        hint = known
    reason = error.strerror if isinstance(error, OSError) else error
    what = "cannot read results" if reading else "cannot write results"
    return ConfigurationError(f"{folder}: {what}: {reason}", hint=hint)
