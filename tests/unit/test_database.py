"""A locked database: it is waited for, and meanwhile signals and other threads are heard."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.database import connect
from harness.measure.result import Outcome
from harness.store.errors import StoreError
from harness.store.store import FILE_NAME, Claim, Store

AT_ONCE = 5.0  # seconds, on a busy machine


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program has the database to itself."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        yield other


def test_a_connection_waits_for_a_lock(tmp_path: Path) -> None:
    with Store(tmp_path) as store, contextlib.closing(sqlite3.connect(store.path)) as other:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        claims: list[Claim] = []
        thread = threading.Thread(target=lambda: claims.append(store.claim("cells", "k", run)))
        thread.start()
        time.sleep(0.3)
        assert claims == []
        other.execute("ROLLBACK")
        thread.join(60)
        assert claims == [Claim.MINE]


def test_a_lock_that_does_not_end_is_named(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        store._database.wait_seconds = 0.1
        with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=r"locked by another program\n  End that program"):
                store.claim("cells", "k", run)
        assert store.claim("cells", "k", run) is Claim.MINE


def test_a_wait_can_be_ended_by_another_thread(tmp_path: Path) -> None:
    with Store(tmp_path) as store, contextlib.closing(sqlite3.connect(store.path)) as other:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        errors: list[Exception] = []

        def complete() -> None:
            try:
                store.complete_cell(run, "k", Outcome(status="done"))
            except StoreError as error:
                errors.append(error)

        threads = [threading.Thread(target=complete) for _ in range(3)]  # two of them wait for the first
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        begun = time.monotonic()
        store.hurry()
        for thread in threads:
            thread.join(60)
        assert time.monotonic() - begun < AT_ONCE
        assert len(errors) == 3


def test_a_statement_that_is_wrong_is_not_tried_again(tmp_path: Path) -> None:
    with contextlib.closing(connect(tmp_path / "any.sqlite")) as database:
        begun = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            database.execute("SELECT * FROM absent")
        assert time.monotonic() - begun < AT_ONCE


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_command_hears_signals_while_its_store_is_locked(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    Store(tmp_path).close()
    with locked(tmp_path / FILE_NAME):
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "report", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HARNESS_CACHE": str(tmp_path)},
            preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (number, signal.SIGINT)],  # noqa: PLW1509
        )
        assert process.stderr is not None
        try:
            assert "locked" in process.stderr.readline()  # it says what it waits for
            begun = time.monotonic()
            process.send_signal(number)
            assert process.wait(60) == status
            assert time.monotonic() - begun < AT_ONCE
        finally:
            process.kill()
            process.communicate()
