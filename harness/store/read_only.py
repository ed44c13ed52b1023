"""Reads results, also from folders that are not writable."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from harness.database import RetryingConnection, connect, error_code
from harness.errors import ConfigurationError
from harness.store.errors import no_store, store_errors
from harness.store.reader import StoreReader, checked_format
from harness.store.schema import FILE_NAME, VERSION
from harness.store.store import Store
from harness.temporary import temporary_folder

_LOG = f"{FILE_NAME}-wal"  # changes that SQLite has not written into the database file yet


@contextlib.contextmanager
def stored_results(folder: Path) -> Iterator[StoreReader]:
    """The results in a folder. Raises ConfigurationError if there are none or if they are damaged.

    If the folder is writable, a store of an older format is converted there, otherwise in a temporary copy.
    """
    path = folder / FILE_NAME
    _check_file(path)
    if os.access(folder, os.W_OK) and os.access(path, os.W_OK):
        with Store(folder) as store:
            yield store
        return
    with store_errors(folder, reading=True):
        database = _opened(folder)
    if database is not None:
        with StoreReader(folder, database) as reader:
            yield reader
        return
    with temporary_folder("results") as copy:
        with store_errors(folder, reading=True):
            for name in (FILE_NAME, _LOG):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(folder / name, copy / name)
        with Store(folder, file=copy / FILE_NAME) as store:
            yield store


def _check_file(path: Path) -> None:
    with store_errors(path.parent, reading=True):
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise _nothing(path.parent) from None
        if not stat.S_ISREG(found.st_mode):
            raise no_store(path.parent, "not a regular file")
        if found.st_size == 0 and not path.with_name(_LOG).exists():
            raise _nothing(path.parent)
        path.open("rb").close()


def _nothing(folder: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{folder}: no results ({FILE_NAME})", hint="Name the results folder that `harness run` printed."
    )


def _opened(folder: Path) -> RetryingConnection | None:
    """The database, opened read-only. None if only a copy can be read, because it must be converted, or
    because SQLite must apply its log first and cannot write files beside it."""
    path, log = folder / FILE_NAME, folder / _LOG
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        return _current(folder, address)
    except sqlite3.OperationalError as error:
        if error_code(error) & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    if log.exists() and log.stat().st_size:
        return None
    return _current(folder, f"{address}&immutable=1")  # no process has it open


def _current(folder: Path, address: str) -> RetryingConnection | None:
    """The database, if it has the current format."""
    database = connect(address, uri=True)
    with contextlib.ExitStack() as stack:
        stack.callback(database.close)
        version = checked_format(folder, database)
        if version == 0:
            raise _nothing(folder)
        if version == VERSION:
            stack.pop_all()
            return database
    return None
