"""The results of a run as rows, read from the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from harness.measure.intervals import (
    MeanTime,
    mean_time,
    percentile_intervals,
    speed_interval,
    why_no_interval,
)
from harness.measure.statistics import drift, outliers
from harness.report.comparison import Resampled, compared_with_fp32, resampled_of, speed_of
from harness.report.fields import fields_of
from harness.report.pareto import pareto_optimal
from harness.store.reader import StoreReader
from harness.store.records import LayerRow, Outcome, Place


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
    fps_interval: tuple[float, float] | None = None  # in which it is, at 95 %
    fps_interval_missing: str | None = None  # why there is none
    speedup_vs_fp32: float | None = None  # times as fast as the cell that differs in the policy alone
    speedup_interval: tuple[float, float] | None = None  # at 95 %
    speedup_interval_missing: str | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    p50_interval_ms: tuple[float, float] | None = None  # in which the median is, at 95 %
    p90_interval_ms: tuple[float, float] | None = None
    p99_interval_ms: tuple[float, float] | None = None
    p50_interval_missing: str | None = None  # why there is none
    p90_interval_missing: str | None = None
    p99_interval_missing: str | None = None
    drift: float | None = None  # of the times over a round or from the first to the last, where significant
    outliers: int | None = None  # samples that are far from the others
    samples: int | None = None
    rounds: Sequence[int] | None = None  # the samples of each fresh process; None: all are taken as of one
    board: str | None = None  # the device, of those of the target
    throttled: bool | None = None  # None: nothing there tells
    attempts: int | None = None  # runs until one was not throttled, in the round that took most
    course: Sequence[Mapping[str, float | None]] | None = None  # points in time, if sustained
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
    prediction_coefficients_of: str | None = None  # the target that they are borrowed from, if they are
    prediction_missing: str | None = None  # why there is no prediction, and the hint
    bytes_moved: int | None = None  # to and from memory in one inference
    conversion_ms: float | None = None  # of p50_ms, for converting between precisions
    isa: str | None = None
    digest: str | None = None
    digest_matches_host: bool | None = None
    exact: bool | None = None
    accuracy: float | None = None
    accuracy_metric: str | None = None
    accuracy_interval: tuple[float, float] | None = None  # for other pictures of the kind, at 95 %
    accuracy_interval_missing: str | None = None
    accuracy_change: float | None = None  # against fp32 on the same pictures, a fraction
    accuracy_change_interval: tuple[float, float] | None = None  # at 95 %
    accuracy_change_interval_missing: str | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    pareto_optimal: bool = False
    step: str = ""  # of a sweep of steps
    note: str = ""  # what the step adds
    over_previous: float | None = None  # how many times as fast as the step before
    over_first: float | None = None
    layers: Sequence[LayerRow] = ()  # where they were asked for
    mean_time: MeanTime | None = None  # these two are for comparisons, not for readers
    resampled: Resampled | None = None


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
    def skipped(self) -> list[Row]:
        return [row for row in self.rows if row.status == "skipped"]

    @property
    def counts(self) -> dict[str, int]:
        """How many cells have which status; 0 for one that none has."""
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in ("done", "failed", "skipped", "pending")}

    @property
    def throttled(self) -> list[Row]:
        return [row for row in self.rows if row.throttled]


_PERCENTS = (50, 90, 99)
# The score that stands for a model's accuracy: the first one it has.
_HEADLINES = ("map50", "top1")


def read_report(store: StoreReader, run: int, sweep: str, *, layers: bool = False) -> Report:
    """Reads a run's rows, with `layers` those of each too, and marks the Pareto-optimal ones."""
    evaluation = cache(partial(store.outcome, "evaluations"))  # cells share them
    rows = [_row(store, place, evaluation, layers) for place in store.places(run)]
    rows = compared_with_fp32(_compared(rows))
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
            speed = speed_of(row)
            if before:
                row = replace(
                    row, over_previous=_ratio(speed, before[-1]), over_first=_ratio(speed, before[0])
                )
            before.append(speed)
        compared.append(row)
    return compared


def _ratio(speed: float | None, other: float | None) -> float | None:
    return speed / other if speed and other else None


def _row(store: StoreReader, place: Place, evaluation: Callable[[str], Outcome | None], layers: bool) -> Row:
    cell = store.outcome("cells", place.key) or Outcome(status="pending")
    accuracy = evaluation(place.accuracy_key) if place.accuracy_key else None
    status, error = cell.status, cell.error
    if status == "done" and place.accuracy_key and (accuracy is None or accuracy.status != "done"):
        status = accuracy.status if accuracy else "pending"
        error = f"accuracy: {accuracy.error}" if accuracy else ""
    scores = dict(accuracy.result) if accuracy and status == "done" else {}
    try:
        results = fields_of(cell.result)
    except ValueError as wrong:
        raise store.damaged(f"the result of {place.model} {place.policy}: {wrong}") from None
    metric = next((name for name in _HEADLINES if name in scores), None)
    try:
        certainty = _certainty_of_accuracy(scores, metric)
    except ValueError as wrong:
        raise store.damaged(f"the accuracy of {place.model} {place.policy}: {wrong}") from None
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
        **certainty,
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
    rounds = [part for length in lengths or [len(samples)] if (part := list(islice(after, length)))]
    intervals = zip(_PERCENTS, percentile_intervals(rounds, _PERCENTS), strict=True)
    trend = drift(rounds)
    time = mean_time(rounds)
    frequencies = speed_interval(time) if time else None
    return {
        **{f"p{percent}_interval_ms": ends and (ends[0] / 1e6, ends[1] / 1e6) for percent, ends in intervals},
        **{f"p{percent}_interval_missing": why_no_interval(rounds, percent) for percent in _PERCENTS},
        "fps_interval": frequencies and (frequencies[0] * 1e9, frequencies[1] * 1e9),
        "fps_interval_missing": None if time else why_no_interval(rounds, 50) or "too few samples",
        "mean_time": time,
        "drift": trend.change if trend.significant else None,
        "outliers": len(outliers(samples)),
        "samples": len(samples),
    }


def _certainty_of_accuracy(scores: dict[str, Any], metric: str | None) -> dict[str, Any]:
    """How far a model's score is one of these very pictures. Takes what tells that out of the scores, which
    are for readers."""
    resampled = resampled_of(scores, metric)
    if metric is None:
        return {}
    score = scores[metric]
    if not isinstance(score, int | float):
        raise ValueError(f"{metric} is no number")  # noqa: TRY004 - of a file, not of a caller
    from harness.accuracy.resampling import FEWEST_PICTURES, reach

    if resampled is not None:
        off = reach(resampled.values)
        return {"resampled": resampled, "accuracy_interval": (score - off, score + off)}
    images = scores.get("images")
    missing = "evaluated by an earlier version, which kept no score for each picture"
    if isinstance(images, int) and images < FEWEST_PICTURES:
        missing = f"too few pictures: {images}, at least {FEWEST_PICTURES} are needed"
    return {"accuracy_interval_missing": missing}
