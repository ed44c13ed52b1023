"""Reads the results of a run from its store, as the rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from harness.measure.intervals import mean_time, percentile_intervals, speed_interval, why_no_interval
from harness.measure.result import CellOutcome, CellResult, EvaluationOutcome
from harness.measure.statistics import drift, outliers
from harness.report.backends import fallback_of
from harness.report.box_losses import box_losses
from harness.report.comparison import compared_with_fp32, speed_of
from harness.report.details import detailed
from harness.report.limits import UNLIMITED, Limits
from harness.report.pareto import pareto_optimal
from harness.report.rerun import cell_command
from harness.report.result import Details, Report, Resampled, Row, group_of
from harness.store.reader import StoreReader
from harness.store.records import PlannedCell

_PERCENTS = (50, 90, 99)
# A model's accuracy is the first of these scores that it has.
_HEADLINES = ("map50", "top1", "agreement")


def read_report(
    store: StoreReader,
    run: int,
    sweep: str,
    *,
    layers: bool = False,
    details: bool = False,
    limits: Limits = UNLIMITED,
) -> Report:
    """Reads the rows of a run and marks the Pareto-optimal ones. `layers`: with all layers; `details`: some
    rows with their details, and the boxes that detectors lose, for a page. `limits` are for the verdicts."""
    evaluation = cache(store.evaluation)  # cells share them
    cells = store.planned(run)
    rows = [_row(store, planned, evaluation, layers) for planned in cells]
    rows = compared_with_fp32(_compared(rows))
    optimal = pareto_optimal(rows)
    sweep_file = store.sweep_file(run)
    rows = [
        replace(
            row,
            pareto_optimal=index in optimal,
            rerun_command=cell_command(sweep_file, store.folder, row),
        )
        for index, row in enumerate(rows)
    ]
    for index in detailed(rows) if details else ():
        rows[index] = replace(rows[index], details=_details(store, cells[index].key, rows[index]))
    report = Report(
        sweep=sweep,
        folder=store.folder,
        environment=store.environment(run),
        rows=rows,
        limits=limits,
        sweep_file=sweep_file,
        artifacts=store.artifacts(run),
    )
    return replace(report, box_losses=box_losses(store, cells, report)) if details else report


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
                    row,
                    speedup_vs_previous=_ratio(speed, before[-1]),
                    speedup_vs_first=_ratio(speed, before[0]),
                )
            before.append(speed)
        compared.append(row)
    return compared


def _ratio(speed: float | None, other: float | None) -> float | None:
    return speed / other if speed and other else None


def _row(
    store: StoreReader,
    planned: PlannedCell,
    evaluation: Callable[[str], EvaluationOutcome | None],
    layers: bool,
) -> Row:
    spec, key, accuracy_key = planned.spec, planned.key, planned.accuracy_key
    cell = store.cell(key) or CellOutcome(status="pending")
    accuracy = evaluation(accuracy_key) if accuracy_key else None
    status, error = cell.status, cell.error
    if status == "done" and accuracy_key and (accuracy is None or accuracy.status != "done"):
        status = accuracy.status if accuracy else "pending"
        error = f"accuracy: {accuracy.error}" if accuracy else ""
    scores = dict(accuracy.values) if accuracy and status == "done" else {}
    metric = next((name for name in _HEADLINES if name in scores), None)
    try:
        certainty = _certainty_of_accuracy(scores, metric)
    except ValueError as wrong:
        raise store.damaged(f"the accuracy of {spec.model} {spec.policy}: {wrong}") from None
    result = cell.result
    profile = cache(lambda: store.layers(key))
    samples = [] if spec.emulated or status != "done" else store.samples_ns(key)
    return Row(
        **vars(spec),
        **vars(result),
        status=status,
        error=error,
        scores=scores,
        accuracy=scores[metric] if metric else None,
        accuracy_metric=metric,
        predicted_fps=1e3 / result.predicted_ms if result.predicted_ms else None,
        fallback=fallback_of(spec.runtime, profile),
        layers=profile() if layers else (),
        energy_mj=_millijoules(result),
        **_certainty(samples, result.rounds),
        **certainty,
    )


def _millijoules(result: CellResult) -> float | None:
    conditions, fps = result.conditions, result.fps
    if not conditions or conditions.energy_joules is None or not conditions.energy_seconds or not fps:
        return None
    return 1e3 * conditions.energy_joules / conditions.energy_seconds / fps


def in_rounds(samples: Sequence[int], lengths: Sequence[int] | None) -> list[list[int]]:
    """The samples of each round; `lengths` are the numbers of their samples, which older stores lack."""
    after = iter(samples)
    return [part for length in lengths or [len(samples)] if (part := list(islice(after, length)))]


def _details(store: StoreReader, key: str, row: Row) -> Details:
    rounds = [] if row.emulated else in_rounds(store.samples_ns(key), row.rounds)
    return Details(layers=store.layers(key), rounds=rounds)


def _certainty(samples: Sequence[int], lengths: Sequence[int] | None) -> dict[str, Any]:
    """The intervals, drift and outliers of a cell's times."""
    if not samples:
        return {}
    rounds = in_rounds(samples, lengths)
    intervals = zip(_PERCENTS, percentile_intervals(rounds, _PERCENTS), strict=True)
    trend = drift(rounds)
    time = mean_time(rounds)
    frequencies = speed_interval(time) if time else None
    return {
        **{f"p{percent}_interval_ms": ends and (ends[0] / 1e6, ends[1] / 1e6) for percent, ends in intervals},
        **{
            f"p{percent}_interval_unavailable_reason": why_no_interval(rounds, percent)
            for percent in _PERCENTS
        },
        "fps_interval": frequencies and (frequencies[0] * 1e9, frequencies[1] * 1e9),
        "fps_interval_unavailable_reason": None if time else why_no_interval(rounds, 50) or "too few samples",
        "mean_time": time,
        "drift": trend.change if trend.significant else None,
        "outliers": len(outliers(samples)),
        "samples": len(samples),
    }


def _resampled(scores: dict[str, Any], metric: str | None) -> Resampled | None:
    """Removes the resampled scores from stored scores. None: there are none, as in older stores. Raises
    ValueError if they are damaged."""
    found = scores.pop("resampled", None)
    if found is None or found.get("metric") != metric:
        return None
    values = found.get("values")
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
        raise ValueError("resampled: its values are not numbers")
    return Resampled(draws=str(found.get("draws")), values=values) if len(values) > 1 else None


def _certainty_of_accuracy(scores: dict[str, Any], metric: str | None) -> dict[str, Any]:
    """The interval of a model's score. Removes the resampled scores, which are not for readers."""
    resampled = _resampled(scores, metric)
    if metric is None:
        return {}
    score = scores[metric]
    if not isinstance(score, int | float):
        raise ValueError(f"{metric} is not a number")  # noqa: TRY004 - of a file, not of a caller
    from harness.accuracy.resampling import FEWEST_PICTURES, reach

    if resampled is not None:
        off = reach(resampled.values)
        return {"resampled": resampled, "accuracy_interval": (score - off, score + off)}
    images = scores.get("images")
    missing = "evaluated by an earlier version, which kept no score for each picture"
    if isinstance(images, int) and images < FEWEST_PICTURES:
        missing = f"too few pictures: {images}, at least {FEWEST_PICTURES} are needed"
    return {"accuracy_interval_unavailable_reason": missing}
