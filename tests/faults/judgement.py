"""The findings of a campaign, and whether every cell ended correctly."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_kinds import KINDS, Kind

from harness.store.store import FILE_NAME, Store

if TYPE_CHECKING:
    from rich.table import Table

# How long after a fault it may still make a cell fail: engines have 6 s, a connection without an answer has
# up to a minute (harness/boards/ssh/board.py), and others are tried before.
LATE_SECONDS = 90.0


@dataclass(kw_only=True)
class Done:
    """A fault that was done, or is being done, by time.time()."""

    kind: Kind
    board: str  # empty: to the host
    begun: float
    ended: float = math.inf

    def explains(self, error: str, finished: float) -> bool:
        return (
            self.begun <= finished <= self.ended + LATE_SECONDS
            and any(phrase in error for phrase in self.kind.phrases)
            and self.board in error
        )


@dataclass
class Tally:
    """The figures of the campaign's table."""

    faults: Counter[str] = field(default_factory=Counter)
    cells: int = 0
    done: int = 0
    failed: int = 0
    lost: int = 0
    twice: int = 0
    wrong_digest: int = 0
    wrong_cause: int = 0
    left_behind: int = 0
    sweeps: int = 0
    restarts: int = 0
    causes: Counter[str] = field(default_factory=Counter)  # kinds of faults that made cells or harness end
    found: list[str] = field(default_factory=list)  # what was left behind, ended twice, or said a wrong cause

    @property
    def holds(self) -> bool:
        return not (self.lost or self.twice or self.wrong_digest or self.wrong_cause or self.left_behind)

    def missing_kinds(self) -> list[Kind]:
        return [kind for kind in KINDS if not self.faults[kind.name]]

    def as_json(self) -> dict[str, Any]:
        more = {"faults": sum(self.faults.values()), "kinds": dict(self.faults), "causes": dict(self.causes)}
        return vars(self) | more

    def judge_rows(self, rows: Mapping[str, Any], expected: Mapping[str, str]) -> None:
        """Of a sweep's report, by cell; `expected` are the digests without faults."""
        self.cells += len(expected)
        for name, digest in expected.items():
            row = rows.get(name, {"status": "missing"})
            if row["status"] == "done":
                self.done += 1
                if row["digest"] != digest:
                    self.wrong_digest += 1
                    self.found.append(f"{name}: digest {row['digest']} instead of {digest}")
            elif row["status"] == "failed":
                self.failed += 1
            else:
                self.lost += 1
                self.found.append(f"{name}: {row['status']}")

    def judge_ends(self, ends: Iterable[tuple[str, str, int, str, float]], faults: Sequence[Done]) -> None:
        """Of the cells' ends, in their order: key, status, run, error, time.

        A run repeats only the cells that failed in an earlier one.
        """
        last: dict[str, tuple[str, int]] = {}
        for key, status, run, error, finished in ends:
            if key in last and (last[key][0] == "done" or last[key][1] == run):
                self.twice += 1
                self.found.append(f"{key[:12]}: {status} in run {run} after {last[key]}")
            last[key] = (status, run)
            if status != "done":
                self.judge_cause(error, finished, faults)

    def judge_cause(self, error: str, finished: float, faults: Sequence[Done]) -> None:
        """Whether an error tells of a fault that had been done, to the board that it names."""
        explaining = [fault.kind.name for fault in faults if fault.explains(error, finished)]
        if explaining and "unexpected" not in error and "a bug in harness" not in error:
            self.causes[explaining[-1]] += 1
        else:
            self.wrong_cause += 1
            self.found.append(f"a wrong cause: {error}")

    def leave(self, found: Sequence[str]) -> None:
        self.left_behind += len(found)
        self.found += found

    def table(self) -> Table:
        """Kinds of faults, how many of each, and what failed for it; then how the cells ended."""
        from rich.table import Table

        table = Table("fault", "done", "failures", title=f"{self.sweeps} sweeps, {self.cells} cells")
        for column in table.columns[1:]:
            column.justify = "right"
        for kind in KINDS:
            table.add_row(kind.name, str(self.faults[kind.name]), str(self.causes[kind.name]))
        table.add_section()
        table.add_row("all faults", str(sum(self.faults.values())), str(self.causes.total()))
        table.add_section()
        for name in ("done", "failed", "lost", "twice", "wrong_digest", "wrong_cause", "left_behind"):
            table.add_row(name.replace("_", " "), "", str(getattr(self, name)))
        return table


def note_ends(folder: Path) -> None:
    """Has the results' own database note every time that a cell's result is written."""
    Store(folder).close()
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
        database.executescript(
            "CREATE TABLE ends (cell TEXT, status TEXT, run INTEGER, error TEXT, finished REAL);"
            "CREATE TRIGGER noted AFTER INSERT ON cells"
            " BEGIN INSERT INTO ends VALUES (NEW.key, NEW.status, NEW.run, NEW.error, NEW.finished); END;"
        )


def noted_ends(folder: Path) -> list[tuple[str, str, int, str, float]]:
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
        return database.execute("SELECT * FROM ends ORDER BY rowid").fetchall()
