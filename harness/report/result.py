"""The results of a run as rows, read from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from harness.report.fields import fields_of
from harness.report.pareto import pareto_optimal
from harness.sweep.intervals import percentile_intervals
from harness.sweep.records import LayerRow, Outcome, Place
from harness.sweep.statistics import drift, outliers
from harness.sweep.store_reader import StoreReader


@dataclass(frozen=True, kw_only=True)
class Row:
    """One cell."""

    model: str
    policy: str
    target: str
    runtime: str
    toolchain: str  # and its flags
    threads: int
    options: str
    emulated: bool
    status: str  # done, failed, skipped, or pending where a run was cut short
    error: str = ""
    fps: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    p50_interval_ms: tuple[float, float] | None = None  # in which the median is, at 95 %
    p90_interval_ms: tuple[float, float] | None = None  # None: fewer than 10 samples
    p99_interval_ms: tuple[float, float] | None = None  # None: fewer than 100, where p99 is about the longest
    drift: float | None = None  # of the times over a round or from the first to the last, where significant
    outliers: int | None = None  # samples that are far from the others
    samples: int | None = None
    rounds: Sequence[int] | None = None  # the samples of each fresh process; None: all are taken as of one
    board: str | None = None  # the device, of those of the target
    throttled: bool | None = None  # None: nothing there tells
    attempts: int | None = None  # runs until one was not throttled, in the round that took most
    course: Sequence[Mapping[str, float | None]] | None = None  # points of harness.sweep.course, if sustained
    conditions: Mapping[str, Any] | None = None  # clocks, heat, governors and warnings during the run
    energy_mj: float | None = None  # of one inference, at the mean power of the run
    peak_rss_bytes: int | None = None
    arena_bytes: int | None = None
    weight_bytes: int | None = None
    instructions: int | None = None
    instructions_isa: str | None = None  # with which an emulator counted them on the host
    instructions_missing: str | None = None  # why nothing did
    predicted_fps: float | None = None  # of a real board, from the emulated run
    predicted_ms: float | None = None
    predicted_low_ms: float | None = None  # between this one and
    predicted_high_ms: float | None = None  # this one nine of ten measured times are expected
    prediction_error: float | None = None  # the fraction of which that interval is made
    prediction_validated: bool | None = None  # whether that error was found on this kind of board
    prediction_missing: str | None = None  # why there is no prediction, and the cure
    bytes_moved: int | None = None  # to and from memory in one inference
    conversion_ms: float | None = None  # of p50_ms, for converting between precisions
    isa: str | None = None
    digest: str | None = None
    digest_matches_host: bool | None = None
    exact: bool | None = None
    accuracy: float | None = None
    accuracy_metric: str | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    pareto_optimal: bool = False
    step: str = ""  # of a sweep of steps
    note: str = ""  # what the step adds
    over_previous: float | None = None  # how many times as fast as the step before
    over_first: float | None = None
    layers: Sequence[LayerRow] = ()  # where they were asked for


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows of a run, and what is known of the machine."""

    sweep: str
    folder: Path
    environment: Mapping[str, str]
    rows: Sequence[Row]

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.status == "failed"]

    @property
    def throttled(self) -> list[Row]:
        return [row for row in self.rows if row.throttled]


_PERCENTS = (50, 90, 99)
# The score that stands for a model's accuracy: the first one it has.
_HEADLINES = ("map50", "top1")


def read_report(store: StoreReader, run: int, sweep: str, *, layers: bool = False) -> Report:
    """Reads a run's rows, with `layers` those of each too, and marks the Pareto-optimal ones."""
    rows = _compared([_row(store, place, layers) for place in store.places(run)])
    optimal = pareto_optimal(rows)
    return Report(
        sweep=sweep,
        folder=store.folder,
        environment=store.environment(run),
        rows=[replace(row, pareto_optimal=index in optimal) for index, row in enumerate(rows)],
    )


def group_of(row: Row) -> tuple[object, ...]:
    """What the steps of one row of steps have in common."""
    return row.target, row.emulated, row.model, row.policy, row.runtime, row.toolchain


def _compared(rows: Sequence[Row]) -> list[Row]:
    """The rows, each step with its speed as a multiple of the step before's and of the first's."""
    speeds: dict[tuple[object, ...], list[float | None]] = {}
    compared = []
    for row in rows:
        if row.step:
            before = speeds.setdefault(group_of(row), [])
            speed = row.predicted_fps if row.emulated else row.fps
            if before:
                row = replace(
                    row, over_previous=_ratio(speed, before[-1]), over_first=_ratio(speed, before[0])
                )
            before.append(speed)
        compared.append(row)
    return compared


def _ratio(speed: float | None, other: float | None) -> float | None:
    return speed / other if speed and other else None


def _row(store: StoreReader, place: Place, layers: bool) -> Row:
    cell = store.outcome("cells", place.key) or Outcome(status="pending")
    accuracy = store.outcome("evaluations", place.accuracy_key) if place.accuracy_key else None
    status, error = cell.status, cell.error
    if status == "done" and place.accuracy_key and (accuracy is None or accuracy.status != "done"):
        status = accuracy.status if accuracy else "pending"
        error = f"accuracy: {accuracy.error}" if accuracy else ""
    scores = accuracy.result if accuracy and status == "done" else {}
    try:
        results = fields_of(cell.result)
    except ValueError as wrong:
        raise store.damaged(f"the result of {place.model} {place.policy}: {wrong}") from None
    metric = next((name for name in _HEADLINES if name in scores), None)
    if metric and not isinstance(scores[metric], int | float):
        raise store.damaged(f"the accuracy of {place.model} {place.policy}: {metric} is no number")
    return Row(
        model=place.model,
        policy=place.policy,
        target=place.target,
        runtime=place.runtime,
        toolchain=place.toolchain,
        threads=place.threads,
        options=place.options,
        emulated=place.emulated,
        step=place.step,
        note=place.note,
        status=status,
        error=error,
        scores=scores,
        accuracy=scores[metric] if metric else None,
        accuracy_metric=metric,
        predicted_fps=1e3 / results["predicted_ms"] if results["predicted_ms"] else None,
        layers=store.layers(place.key) if layers else (),
        **_certainty(
            [] if place.emulated or status != "done" else store.samples_ns(place.key), results["rounds"]
        ),
        energy_mj=_millijoules(results["fps"], results["conditions"] or {}),
        **results,
    )


def _millijoules(fps: float | None, conditions: Mapping[str, Any]) -> float | None:
    joules, seconds = conditions.get("energy_joules"), conditions.get("energy_seconds")
    return 1e3 * joules / seconds / fps if joules is not None and seconds and fps else None


def _certainty(samples: Sequence[int], lengths: Sequence[int] | None) -> dict[str, Any]:
    """How far the times of a cell are to be trusted; `lengths` are those of its rounds, of which older stores
    know nothing."""
    if not samples:
        return {}
    after = iter(samples)
    rounds = [list(islice(after, length)) for length in lengths or [len(samples)]]
    intervals = zip(_PERCENTS, percentile_intervals(rounds, _PERCENTS), strict=True)
    trend = drift(rounds)
    return {
        **{f"p{percent}_interval_ms": ends and (ends[0] / 1e6, ends[1] / 1e6) for percent, ends in intervals},
        "drift": trend.change if trend.significant else None,
        "outliers": len(outliers(samples)),
        "samples": len(samples),
    }
