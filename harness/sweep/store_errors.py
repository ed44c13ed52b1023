"""What the errors of SQLite and of the system say of a folder with results."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.errors import ConfigurationError, HarnessError, cure_of
from harness.patient_database import error_code, is_busy

_AGAIN = "Results that are there are kept: the same command goes on with what is missing."


class StoreError(HarnessError):
    """The storage failed under a store: no board is at fault, and none could go on without it."""


@contextlib.contextmanager
def store_errors(folder: Path) -> Iterator[None]:
    """Raises StoreError where the storage is full or fails, and ConfigurationError where the folder cannot be
    used or what is there is no store, instead of SQLite's errors and OSError; others pass, as they are faults
    of harness.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (_no_room(folder) if full else _unusable(folder, error)) from None
    except sqlite3.Error as error:
        meant = _meaning(folder, error)
        if meant is None:
            raise
        raise meant from None


def _meaning(folder: Path, error: sqlite3.Error) -> HarnessError | None:
    code = error_code(error)
    # The file that processes share beside the database has to grow as well: where it cannot, SQLite leaves
    # out why.
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
        return _no_room(folder)
    if is_busy(error):
        return StoreError(
            f"{folder}: results cannot be read or written: another program has them locked",
            cure=f"End that program: `fuser -v` with the file's name shows it. {_AGAIN}",
        )
    kind = code & 0xFF
    if kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL):
        return StoreError(
            f"{folder}: results cannot be read or written: {error}", cure=f"Check that storage. {_AGAIN}"
        )
    if kind in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return _unusable(folder, error)
    if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return no_store(folder, str(error))
    return None


def no_store(folder: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{folder}: is no store of results ({reason})",
        cure="Name another folder with --results.",
    )


def _no_room(folder: Path) -> StoreError:
    return StoreError(f"{folder}: no room there for results", cure=f"Free some space. {_AGAIN}")


def _unusable(folder: Path, error: OSError | sqlite3.Error) -> ConfigurationError:
    cure = "Give a folder that can be written with --results."
    if isinstance(error, sqlite3.Error):
        cure = "Name another folder with --results; SQLite takes no path of more than some 500 bytes."
    elif known := cure_of(error):
        cure = known
    reason = error.strerror if isinstance(error, OSError) else error
    return ConfigurationError(f"{folder}: no results can be kept here: {reason}", cure=cure)
