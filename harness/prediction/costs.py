"""Cached costs of instruction blocks on a core."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from harness import console
from harness.database import connect
from harness.errors import HarnessError
from harness.prediction.core_model import CoreModel
from harness.prediction.llvm import Llvm
from harness.resources import cache_directory

_PATIENCE_SECONDS = 3.0  # to wait for another process
_AT_ONCE = 500  # blocks between updates of the progress bar


def block_cycles(blocks: Sequence[bytes], model: CoreModel, llvm: Llvm) -> npt.NDArray[np.float64]:
    """Cycles of one iteration of each block. [n]"""
    names = [hashlib.sha256(block).digest()[:16] for block in blocks]
    fingerprint = model.fingerprint(llvm)
    with _Kept(fingerprint) as kept:
        known = kept.find(names)
        missing = {name: block for name, block in zip(names, blocks, strict=True) if name not in known}
        if missing:
            known |= _calculate(missing, model, llvm, kept)
    return np.array([known[name] for name in names], dtype=np.float64)


def _calculate(missing: dict[bytes, bytes], model: CoreModel, llvm: Llvm, kept: _Kept) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    pairs = list(missing.items())
    shown = len(pairs) > _AT_ONCE  # fewer take a second or two
    bar = (
        console.progress(f"costs on {model.name}, blocks", len(pairs)) if shown else contextlib.nullcontext()
    )
    with bar as progress:
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            cycles = model.cycles([block for _, block in part], llvm)
            new = {name: cost for (name, _), cost in zip(part, cycles, strict=True)}
            kept.add(new)
            found |= new
            if progress is not None:
                progress.advance(len(part))
    return found


class _Kept:
    """Costs by one core's rules, in a file that several processes share."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.path = cache_directory() / "costs.sqlite"

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._readable():
            self._database = connect(self.path)
            self._database.wait_seconds = _PATIENCE_SECONDS
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS costs (model TEXT NOT NULL, block BLOB NOT NULL, "
                "cycles REAL NOT NULL, PRIMARY KEY (model, block)) WITHOUT ROWID"
            )
        return self

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HarnessError(
                f"{self.path}: {error}",
                hint="Remove the file: it is only a cache. If its path is longer than 500 bytes, set "
                "HARNESS_CACHE to another folder.",
            ) from None

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def find(self, names: Sequence[bytes]) -> dict[bytes, float]:
        select = "SELECT block, cycles FROM costs WHERE model = ? AND block IN"
        with self._readable():
            return dict(self._database.select_named(select, names, self.fingerprint))

    def add(self, costs: dict[bytes, float]) -> None:
        rows = [(self.fingerprint, name, cost) for name, cost in costs.items()]
        # Costs that are not cached are only recalculated, so continue with a full disk.
        with contextlib.suppress(sqlite3.OperationalError):
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO costs VALUES (?, ?, ?)", rows)
            self._database.execute("COMMIT")
