"""The store if its storage is full or fails: errors, remains, and that work continues later."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from cells_in_store import done

from harness.errors import ConfigurationError
from harness.store.errors import StoreError, store_errors
from harness.store.owners import Owner, remove_dead
from harness.store.store import FILE_NAME, Claim, Run, Store
from harness.sweep.board_activity import BoardStatus
from harness.sweep.board_service import BoardService
from harness.sweep.schedule import Schedule, Task

LARGE = done(fps=2.5, samples_ns=range(1, 20_000))


def begin(store: Store) -> Run:
    return store.begin_run(sweep="s", file="s.yaml", fresh=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return path


def test_a_full_disk_is_called_so_and_work_goes_on_once_there_is_room(small_disk: Path) -> None:
    folder = small_disk / "results"
    with Store(folder) as store:
        run = begin(store)
        assert store.claim("cells", "k", run) is Claim.MINE
        filler = fill(small_disk)
        for write in (
            lambda: store.complete_cell(run, "k", LARGE),
            lambda: store.release("k"),
            lambda: store.finish_run(run),
            lambda: begin(store),
        ):
            with pytest.raises(StoreError, match=r"no space left for results\n.*Free some space"):
                write()
        assert store.cell("k") is None
        filler.unlink()
        store.complete_cell(run, "k", LARGE)
        assert store.samples_ns("k") == list(LARGE.samples_ns)


def test_a_store_is_opened_where_the_disk_is_full(small_disk: Path) -> None:
    folder = small_disk / "results"
    Store(folder).close()
    filler = fill(small_disk)
    with pytest.raises(StoreError, match="no space left for results"):
        Store(small_disk / "another")
    with pytest.raises(StoreError, match="no space left for results"), Store(folder) as store:
        store.claim("cells", "k", Run(id=1, baseline=0, fresh=False))
    assert list(folder.glob("owners/*")) == []
    filler.unlink()
    with Store(folder) as store:
        assert store.claim("cells", "k", begin(store)) is Claim.MINE


def test_the_end_of_a_store_on_a_full_disk_gives_up_its_claims(tmp_path: Path) -> None:
    with Store(tmp_path) as other:
        with Store(tmp_path) as store:
            run = begin(store)
            assert store.claim("cells", "k", run) is Claim.MINE
            (pages,) = store._database.execute("PRAGMA page_count").fetchone()
            store._database.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk were full
            with pytest.raises(StoreError, match="no space left"):
                store.complete_cell(run, "k", LARGE)
            with pytest.raises(StoreError, match="no space left"):  # the transaction before has ended
                store.complete_cell(run, "k", LARGE)
            assert other.claim("cells", "k", run) is Claim.BUSY
        assert other.claim("cells", "k", run) is Claim.MINE


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (sqlite3.SQLITE_FULL, StoreError, "no space left for results"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreError, "no space left for results"),
        (sqlite3.SQLITE_IOERR_WRITE, StoreError, "cannot be read or written"),
        (sqlite3.SQLITE_IOERR, StoreError, "cannot be read or written"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreError, "locked by another program"),
        (sqlite3.SQLITE_CANTOPEN, ConfigurationError, "cannot write results"),
        (sqlite3.SQLITE_READONLY_DBMOVED, ConfigurationError, "cannot write results"),
        (sqlite3.SQLITE_NOTADB, ConfigurationError, "not a results file of harness"),
        (sqlite3.SQLITE_CORRUPT_INDEX, ConfigurationError, "damaged"),
        (sqlite3.SQLITE_ERROR, sqlite3.OperationalError, "as SQLite says it"),  # a fault of harness
        (None, sqlite3.OperationalError, "as SQLite says it"),
    ],
)
def test_errors_of_sqlite_are_explained(
    code: int | None, kind: type[Exception], said: str, tmp_path: Path
) -> None:
    error = sqlite3.OperationalError("as SQLite says it")
    if code is not None:
        error.sqlite_errorcode = code
    with pytest.raises(kind, match=said), store_errors(tmp_path):
        raise error


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, StoreError), (errno.EDQUOT, StoreError), (errno.EACCES, ConfigurationError)],
)
def test_errors_of_the_system_are_explained(number: int, kind: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(kind), store_errors(tmp_path):
        raise OSError(number, "what it says")


def test_an_owner_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="No space left"):
        Owner(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert list(tmp_path.iterdir()) == []


def test_files_of_dead_owners_are_removed(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    for name in ("killed-before-it-was-locked", ".of-an-older-harness"):
        (tmp_path / name).touch()
    remove_dead(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [owner.name]
    owner.close()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(ConfigurationError, match="not a results file of harness"):
        Store(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        assert database.execute("SELECT name FROM sqlite_schema").fetchall() == [("songs",)]


def test_no_board_is_blamed_for_the_results_disk() -> None:
    class Unwritable:
        """Stands for the worker, whose store fails, and for the boards, none of which may be dropped."""

        stop = threading.Event()

        def get(self, board: str) -> None:
            pass

        def attempt_together(self, jobs: object) -> list[Claim]:
            raise StoreError("the disk is full")

    def no_call(*_: object) -> None:
        raise AssertionError

    schedule: Schedule[Any] = Schedule([Task([("k", None)], "pi4", 1.0)], {"desk": "pi4"}, no_call)
    service = BoardService(
        worker=cast(Any, Unwritable()),
        boards=cast(Any, Unwritable()),
        fleet=cast(Any, None),
        schedule=cast(Any, schedule),
        job_for=lambda _keyed, _board: cast(Any, None),
        cost=lambda _cell: 1.0,
        advance=no_call,
    )
    board_status = BoardStatus("desk", "pi4")
    board_status.watched = lambda job, *_: job  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="the disk is full"):
        service.serve(board_status)
