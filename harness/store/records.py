"""The records of a store besides results: runs and their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.measure.spec import CellSpec

Table = Literal["cells", "evaluations"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution of a sweep."""

    id: int
    baseline: int
    fresh: bool


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell of a run, with the keys of its results."""

    spec: CellSpec
    key: str
    accuracy_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """An earlier execution of a sweep."""

    id: int
    sweep: str
    started: float  # seconds since 1970
