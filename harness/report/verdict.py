"""The verdict on each board and model: which cell to use, what it gains and loses, and what that rests on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.accuracy.overlap import overlap_sentence
from harness.report.cell_names import cell_name
from harness.report.choice import (
    fastest,
    front,
    knee,
    meets,
    memory_of,
    speed_interval_of,
    surely_meets,
)
from harness.report.columns import NAMES_OF_METRICS
from harness.report.comparison import BASELINE, fp32_of, speed_of
from harness.report.limits import Limits
from harness.report.pareto import MIB
from harness.report.rerun import BOARDS, sweep_command
from harness.report.result import Report, Row
from harness.report.table import figure

Outcome = Literal["recommended", "undecided", "none"]
_FIRST_MINUTE = 60.0  # seconds
_SUSTAINED_SHARE = 0.75  # of a run: the speed after this is the sustained one


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A sentence on one board and model, and the sentences that support it."""

    target: str
    model: str
    emulated: bool
    outcome: Outcome  # undecided: several cells are equally reasonable
    cells: Sequence[int]  # the recommended one, or those to choose from; positions in the report
    summary: str
    basis: Sequence[str]  # what it rests on, and what is uncertain
    next_step: str
    next_command: str
    first_minute_fps: float | None = None  # of a sustained run
    sustained_fps: float | None = None

    @property
    def place(self) -> str:
        """The model and the board, with what its speeds are."""
        return f"{self.model} on {self.target}{' (predicted)' if self.emulated else ''}"


def verdicts(report: Report) -> list[Verdict]:
    """A verdict for each board and model, measured boards first. Sweeps of steps have none: their tables show
    what each step gains."""
    groups: dict[tuple[bool, str, str], list[int]] = {}
    for index, row in enumerate(report.rows):
        if not row.step:
            groups.setdefault((row.emulated, row.target, row.model), []).append(index)
    return [_verdict(report, groups[key]) for key in sorted(groups, key=lambda key: key[0])]


def sustained_speeds(row: Row) -> tuple[float, float] | None:
    """Frames per second in the first minute of a sustained run and in its last quarter; None for runs of less
    than two minutes."""
    points = row.time_series or ()
    end = points[-1].seconds if points else 0.0
    first = [point.fps for point in points if point.seconds <= _FIRST_MINUTE]
    last = [point.fps for point in points if point.seconds > _SUSTAINED_SHARE * end]
    if end < 2 * _FIRST_MINUTE or not first:
        return None
    return sum(first) / len(first), sum(last) / len(last)


def _verdict(report: Report, group: Sequence[int]) -> Verdict:
    rows = [report.rows[index] for index in group]
    done = [row for row in rows if row.status == "done" and speed_of(row)]
    outcome, chosen, reason = _choice(done, report.limits)
    base = fp32_of(chosen[0], report.rows) if chosen else None
    if outcome == "recommended":
        summary = f"{cell_name(chosen[0], done)} – {_gain(chosen[0], base)}"  # noqa: RUF001 - a dash
        if reason:
            summary += f" {reason}"
    else:
        summary = reason
    speeds = sustained_speeds(chosen[0]) if chosen else None
    step, command = _next(report, rows, chosen)
    return Verdict(
        target=rows[0].target,
        model=rows[0].model,
        emulated=rows[0].emulated,
        outcome=outcome,
        cells=[index for row in chosen for index in group if report.rows[index] is row],
        summary=summary,
        basis=_basis(rows, chosen, report.limits) if chosen else [],
        next_step=step,
        next_command=command,
        first_minute_fps=speeds and speeds[0],
        sustained_fps=speeds and speeds[1],
    )


def _choice(done: Sequence[Row], limits: Limits) -> tuple[Outcome, list[Row], str]:
    """What to recommend, the cells concerned, and a sentence with the reason if it is not obvious."""
    if not done:
        return "none", [], "No verdict: no cell has a speed."
    if limits:
        kept = [row for row in done if meets(row, limits)]
        if not kept:
            unknown = limits.max_drop is not None and all(row.accuracy_change is None for row in done)
            why = " The change in accuracy against fp32 is unknown." if unknown else ""
            return "none", [], f"No policy meets the limits ({limits}).{why}"
        return "recommended", [fastest(kept)], f"The fastest that meets the limits ({limits})."
    points = front(done)
    if not points:
        best = fastest(done)
        speed = f"{cell_name(best, done)} is the fastest: {_gain(best, None)}"
        return "undecided", [best], f"No recommendation, because no accuracy was evaluated. {speed}"
    place = knee([(speed_of(row) or 0.0, row.accuracy or 0.0) for row in points])
    if place is None:
        names = ", ".join(f"{cell_name(row, done)} ({_brief(row)})" for row in points)
        return "undecided", points, f"A choice between speed and accuracy: {names}. --max-drop decides."
    what = "The knee of speed against accuracy." if len(points) > 1 else ""
    return "recommended", [points[place]], what


def _brief(row: Row) -> str:
    return f"{figure(speed_of(row))} FPS, {100 * (row.accuracy or 0.0):.2f} % {_metric(row)}"


def _gain(row: Row, base: Row | None) -> str:
    """Speed, accuracy and memory of a cell against fp32, or as they are."""
    if row.policy == BASELINE:
        return f"{_brief(row) if row.accuracy is not None else figure(speed_of(row)) + ' FPS'}."
    if row.speedup_vs_fp32 is None:
        accuracy = "" if row.accuracy is None else f", {100 * row.accuracy:.2f} % {_metric(row)}"
        return f"{figure(speed_of(row))} FPS{accuracy}; no fp32 cell to compare with."
    parts = [_speed_gain(row), *_accuracy_loss(row), *_memory_gain(row, base)]
    return f"{', '.join(parts)}."


def _speed_gain(row: Row) -> str:
    ends = row.speedup_interval
    times = f"{figure(row.speedup_vs_fp32)} times the FPS of fp32"
    if ends is None:
        return times
    noise = ", so not surely faster" if ends[0] <= 1 <= ends[1] else ""
    return f"{times} ({figure(ends[0])} to {figure(ends[1])}{noise})"


def _accuracy_loss(row: Row) -> list[str]:
    if row.accuracy_change is None:
        return ["accuracy not evaluated"]
    points = f"{abs(100 * row.accuracy_change):.2f} points of {_metric(row)}"
    loss = f"{points} {'gained' if row.accuracy_change > 0 else 'lost'}"
    ends = row.accuracy_change_interval
    if ends is None:
        return [loss]
    noise = ", inside the noise" if ends[0] <= 0 <= ends[1] else ""
    return [f"{loss} (± {50 * (ends[1] - ends[0]):.2f}{noise})"]


def _memory_gain(row: Row, base: Row | None) -> list[str]:
    memory, before = memory_of(row), None if base is None else memory_of(base)
    if memory is None or before is None:
        return []
    less = (before - memory) / MIB
    if abs(less) < 0.1:
        return []
    return [f"{figure(abs(less))} MiB {'less' if less > 0 else 'more'} memory"]


def _metric(row: Row) -> str:
    return NAMES_OF_METRICS.get(row.accuracy_metric or "", "accuracy")


def _basis(rows: Sequence[Row], chosen: Sequence[Row], limits: Limits) -> list[str]:
    row = chosen[0]
    basis = [_origin(row), _pictures(row)]
    if missing := sum(other.status != "done" for other in rows):
        basis.append(f"{missing} of {len(rows)} cells have no result.")
    if not surely_meets(row, limits):
        basis.append("The interval reaches beyond the limits.")
    if row.emulated and row.prediction_error is not None and not row.prediction_validated:
        basis.append("The size of the interval is an assumption: there are no measurements to check it.")
    if row.throttled:
        basis.append("The board was throttled.")
    if overlap := row.scores.get("calibration_overlap"):
        basis.append(f"{overlap_sentence(overlap, row.scores['images'])}.")
    if speeds := sustained_speeds(row):
        basis.append(
            f"{figure(speeds[0])} FPS in the first minute, {figure(speeds[1])} FPS in the last quarter of "
            f"{figure((row.time_series or ())[-1].seconds / 60)} minutes."
        )
    return basis


def _origin(row: Row) -> str:
    ends = speed_interval_of(row)
    interval = f" ({figure(ends[0])} to {figure(ends[1])})" if ends else ""
    speed = f"{figure(speed_of(row))} FPS{interval}"
    if row.emulated:
        return f"{speed}: predicted from an emulated run, not measured on a board."
    rounds = len(row.rounds or (1,))
    count = f", {row.samples} samples in {rounds} round{'s'[: rounds > 1]}" if row.samples else ""
    return f"{speed}: measured on {row.board or row.target}{count}."


def _pictures(row: Row) -> str:
    if row.accuracy is None:
        return "Accuracy was not evaluated."
    images = row.scores.get("images")
    which = f"{images} pictures" if isinstance(images, int) else "an unknown number of pictures"
    return f"Accuracy on {which}, computed on this machine."


def _next(report: Report, rows: Sequence[Row], chosen: Sequence[Row]) -> tuple[str, str]:
    """What to run next, and the command."""
    run = sweep_command(report.sweep_file, report.folder, rows)
    if any(row.status != "done" for row in rows):
        return "Complete the missing cells", run
    if not chosen or chosen[0].accuracy is None:
        return "Name a data set for the model in the sweep file, then extend the sweep", run
    row = chosen[0]
    if row.policy != BASELINE and row.speedup_vs_fp32 is None:
        return "Add the policy fp32 to the sweep file, then extend the sweep", run
    if row.emulated:
        return "Measure on a board", f"{run} {shlex.join(BOARDS)}"
    if row.throttled or (row.speedup_interval and row.speedup_interval[0] <= 1 <= row.speedup_interval[1]):
        return "Measure again, with less noise", f"{run} --fresh"
    if row.target != "host" and not row.time_series:
        return "See whether the speed lasts", f"{run} --sustained 10m"
    return "Repeat the measurement", f"{run} --fresh"
