"""The results of a run as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.accuracy.picture_detections import ComparedDetections
from harness.measure.intervals import MeanTime
from harness.measure.result import CellResult, Status
from harness.measure.spec import CellSpec
from harness.report.limits import UNLIMITED, Limits
from harness.runtimes.base import LayerResult

VERSION = 1  # of the keys of JSON documents: harness/report/schema.py
INTERNAL = ("mean_time", "resampled", "details")  # fields of rows that are for comparisons, not for readers


@dataclass(frozen=True)
class Resampled:
    """A model's score on pictures drawn with replacement. Two scores with the same `draws` have their values
    from the same pictures."""

    draws: str
    values: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Details:
    """What only the charts of a page show of a cell."""

    layers: Sequence[LayerResult]
    rounds: Sequence[Sequence[int]]  # samples in nanoseconds; none of emulated cells


@dataclass(frozen=True, kw_only=True)
class Fallback:
    """The operators of a cell that its runtime's preferred backend did not execute."""

    backend: str  # that executed them
    operators: Sequence[str]  # with their numbers, as in the table of layers
    of: int  # the operators of all backends


@dataclass(frozen=True, kw_only=True)
class Row(CellResult, CellSpec):
    """A cell: its specification, its result, and figures that a report derives from all rows. Intervals are
    at 95 %; `..._unavailable_reason` has the reason for a missing one."""

    status: Status  # pending: the run was interrupted
    error: str = ""
    fps_interval: tuple[float, float] | None = None
    fps_interval_unavailable_reason: str | None = None
    speedup_vs_fp32: float | None = None  # times as fast as the cell that differs only in the policy
    speedup_interval: tuple[float, float] | None = None
    speedup_interval_unavailable_reason: str | None = None
    p50_interval_ms: tuple[float, float] | None = None
    p90_interval_ms: tuple[float, float] | None = None
    p99_interval_ms: tuple[float, float] | None = None
    p50_interval_unavailable_reason: str | None = None
    p90_interval_unavailable_reason: str | None = None
    p99_interval_unavailable_reason: str | None = None
    drift: float | None = None  # change of times over a round or from the first to the last, if significant
    outliers: int | None = None  # samples that are far from the others
    samples: int | None = None
    energy_mj: float | None = None  # of one inference, at the mean power of the run
    predicted_fps: float | None = None
    accuracy: float | None = None
    accuracy_metric: str | None = None
    accuracy_interval: tuple[float, float] | None = None  # for other pictures of the kind
    accuracy_interval_unavailable_reason: str | None = None
    accuracy_change: float | None = None  # against fp32 on the same pictures, a fraction
    accuracy_change_interval: tuple[float, float] | None = None
    accuracy_change_interval_unavailable_reason: str | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    pareto_optimal: bool = False
    speedup_vs_previous: float | None = None  # times as fast as the step before
    speedup_vs_first: float | None = None
    fallback: Fallback | None = None  # None: no operator fell back, or the runtime does not tell
    layers: Sequence[LayerResult] = ()  # if requested
    rerun_command: str = ""  # measures the cell again, alone
    mean_time: MeanTime | None = None  # INTERNAL, like the next one
    resampled: Resampled | None = None
    details: Details | None = None


@dataclass(frozen=True, kw_only=True)
class BoxLoss:
    """What a detector loses under a policy against fp32, and the picture where it loses most."""

    model: str
    policy: str
    runtime: str
    recommended_on: Sequence[str]  # boards; none: it is the fastest of the front
    pictures: int
    kept: int  # boxes of all pictures, like the next ones
    lost: int
    new: int
    worst: ComparedDetections | None = None  # None: no box is lost or new
    jpeg: bytes = b""  # of its picture, smaller; empty: `jpeg_unavailable_reason` says why
    jpeg_unavailable_reason: str = ""
    size: tuple[int, int] = (0, 0)  # of the JPEG: width and height


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows of a run, and facts about the run and the machine."""

    sweep: str
    folder: Path
    environment: Mapping[str, str]
    rows: Sequence[Row]
    limits: Limits = UNLIMITED
    sweep_file: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of the input files, by their names
    box_losses: Sequence[BoxLoss] = ()  # only for pages

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.status == "failed"]

    @property
    def skipped(self) -> list[Row]:
        return [row for row in self.rows if row.status == "skipped"]

    @property
    def counts(self) -> dict[str, int]:
        """The number of cells of each status."""
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in ("done", "failed", "skipped", "pending")}

    def without_unasked(self, asked: Sequence[int]) -> Report:
        """The report without pending cells other than those at the positions `asked`."""
        wanted = set(asked)
        rows = [row for place, row in enumerate(self.rows) if place in wanted or row.status != "pending"]
        return replace(self, rows=rows)

    @property
    def throttled(self) -> list[Row]:
        return [row for row in self.rows if row.throttled]


def group_of(row: Row) -> tuple[object, ...]:
    """The values that the steps of one series share."""
    return row.target, row.emulated, row.model, row.policy, row.runtime, row.toolchain
