"""What a store keeps: runs, the cells that they consist of, and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Table = Literal["cells", "evaluations"]
Status = Literal["done", "failed", "skipped", "pending"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution of a sweep."""

    id: int
    baseline: int
    fresh: bool


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a cell stands in a sweep, and which results belong to it."""

    key: str
    accuracy_key: str | None
    model: str
    policy: str
    target: str
    runtime: str
    toolchain: str  # and its flags
    threads: int
    options: str
    emulated: bool
    step: str = ""  # of a sweep of steps
    note: str = ""


@dataclass(frozen=True)
class LayerRow:
    """One layer of a profile."""

    index: int
    type: str
    precision: str
    executed: str
    isa: str
    algorithm: str
    ns: int
    conversion_ns: int  # of these, for converting the input between precisions
    bytes: int
    predicted_ns: int | None = None  # of a real board, where the cell was emulated


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a piece of work ended: its result, or why there is none."""

    status: Status
    error: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    samples_ns: Sequence[int] = ()
    layers: Sequence[LayerRow] = ()
