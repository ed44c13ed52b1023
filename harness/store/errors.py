"""What the errors of SQLite and of the system say of a folder with results."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.database import error_code, is_busy
from harness.errors import ConfigurationError, HarnessError, hint_of
from harness.store.schema import FILE_NAME

_AGAIN = "Results that are there are kept: the same command goes on with what is missing."


class StoreError(HarnessError):
    """The storage failed under a store: no board is at fault, and none could go on without it."""


@contextlib.contextmanager
def store_errors(folder: Path, *, reading: bool = False) -> Iterator[None]:
    """Raises StoreError where the storage is full or fails, and ConfigurationError where the folder cannot be
    used or what is there is no store, instead of SQLite's errors and OSError; others pass, as they are faults
    of harness. `reading`: nothing is to be written there.
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
    # The file that processes share beside the database has to grow as well: where it cannot, SQLite leaves
    # out why.
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
        return _no_room(folder)
    if is_busy(error):
        return StoreError(
            f"{folder}: results cannot be read or written: another program has them locked",
            hint=f"End that program: `fuser -v` with the file's name shows it. {_AGAIN}",
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
    """The error to raise about a file that no harness wrote."""
    return ConfigurationError(
        f"{folder / FILE_NAME}: is no store of results ({reason})",
        hint="Name another folder, or move this file away.",
    )


def damaged(folder: Path, reason: str) -> ConfigurationError:
    """The error to raise about a store that does not hold what a harness wrote."""
    return ConfigurationError(
        f"{folder / FILE_NAME}: is damaged: {reason}",
        hint="Put back a copy of this file, or move it away and run the sweep again.",
    )


def _no_room(folder: Path) -> StoreError:
    return StoreError(f"{folder}: no room there for results", hint=f"Free some space. {_AGAIN}")


def _unusable(folder: Path, error: OSError | sqlite3.Error, reading: bool) -> ConfigurationError:
    hint = "Give a folder that can be written with --results."
    if isinstance(error, sqlite3.Error):
        hint = "Name another folder; SQLite takes no path of more than some 500 bytes."
    elif known := hint_of(error):
        hint = known
    reason = error.strerror if isinstance(error, OSError) else error
    what = "results cannot be read here" if reading else "no results can be kept here"
    return ConfigurationError(f"{folder}: {what}: {reason}", hint=hint)
