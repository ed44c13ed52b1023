"""Remains of harness on boards and on this machine: processes, locks, temporary files, governors."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from board import GOVERNOR, Board, command_line

from harness.boards.ssh.session import SILENCE_SECONDS
from harness.store.store import FILE_NAME

# A keeper that hears nothing ends its session after one to two times its limit; then it kills and removes.
PATIENCE_SECONDS = 2 * SILENCE_SECONDS + 10.0


def on_boards(boards: Sequence[Board], *, reopened: bool) -> list[str]:
    """What is there still after as long as a keeper takes.

    Of a session before the board's last start nothing runs any more, and its files go with the next session:
    they count where there was one since, with `reopened`.
    """
    return _after_a_while(
        lambda: [f"{board.name}: {what}" for board in boards for what in _on_board(board, reopened)]
    )


def on_host(disk: Path, results: Sequence[Path]) -> list[str]:
    """Claims and owners in the folders with results; temporary files on the disk, which holds these, the
    cache and the folder for temporary files; and processes that were started with them."""
    return _after_a_while(lambda: [*_processes(disk), *_files(disk), *_claims(results)])


def _after_a_while(look: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def _on_board(board: Board, reopened: bool) -> list[str]:
    found = board.unexpected()
    # Of the working folder's parts (boards/ssh/session.py) objects and what has arrived of some outlive a
    # session, whose name ends with its boot.
    for part in ("lock", "sessions", "ended"):
        for path in (board.work / part).rglob("*"):
            if path.name != "held" and (reopened or board.boot in str(path)):
                found.append(str(path))
    found += map(str, board.work.glob("undo-*" if reopened else f"undo-{board.boot}"))
    for path in (board.disk / "home").rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and (reopened or board.boot in path.read_text()):
                found.append(str(path))
    if board.governors() != {GOVERNOR}:
        found.append(f"governors {sorted(board.governors())} instead of {GOVERNOR}")
    return found


def _processes(disk: Path) -> list[str]:
    """Those with a folder of this disk in their environment, as all that the orchestrator starts."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and os.fsencode(disk) in (path / "environ").read_bytes():
                found.append(f"process {path.name} {command_line(int(path.name))}")
    return found


def _files(disk: Path) -> list[str]:
    """Hidden ones are temporary, wherever they are."""
    return [str(path) for path in (*disk.rglob(".*"), *(disk / "tmp").iterdir())]


def _claims(results: Sequence[Path]) -> list[str]:
    found = []
    for folder in results:
        found += [str(path) for path in folder.glob("owners/*")]
        with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
            found += [f"{folder}: claim of {row[0]}" for row in database.execute("SELECT key FROM claims")]
    return found
