"""Chooses one of the cells of a board and a model: by limits, or by the knee of speed against accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.comparison import accuracy_reach, speed_of
from harness.report.limits import Limits
from harness.report.result import Row

_ROUNDING = 1e-9


def meets(row: Row, limits: Limits) -> bool:
    """Whether a row meets all limits. An unknown figure meets none."""
    drop = None if row.accuracy_change is None else -row.accuracy_change
    speed, memory = speed_of(row), memory_of(row)
    return (
        (limits.max_drop is None or (drop is not None and drop <= limits.max_drop + _ROUNDING))
        and (limits.min_fps is None or (speed is not None and speed >= limits.min_fps))
        and (limits.max_memory is None or (memory is not None and memory <= limits.max_memory))
    )


def surely_meets(row: Row, limits: Limits) -> bool:
    """Whether the known intervals of a row's speed and accuracy meet the limits as a whole."""
    speeds, changes = speed_interval_of(row), row.accuracy_change_interval
    return not (
        (limits.max_drop is not None and changes and -changes[0] > limits.max_drop + _ROUNDING)
        or (limits.min_fps is not None and speeds and speeds[0] < limits.min_fps)
    )


def memory_of(row: Row) -> int | None:
    """Bytes: the peak of the process; of an emulated cell, what its network needs."""
    if not row.emulated:
        return row.peak_rss_bytes
    if row.arena_bytes is None or row.weight_bytes is None:
        return None
    return row.arena_bytes + row.weight_bytes


def speed_interval_of(row: Row) -> tuple[float, float] | None:
    """Of frames per second; for an emulated cell, of the predicted ones."""
    if not row.emulated:
        return row.fps_interval
    if not row.predicted_low_ms or not row.predicted_high_ms:
        return None
    return 1e3 / row.predicted_high_ms, 1e3 / row.predicted_low_ms


def fastest(rows: Sequence[Row]) -> Row:
    """The fastest of some rows; at least one."""
    return max(rows, key=lambda row: speed_of(row) or 0.0)


def front(rows: Sequence[Row]) -> list[Row]:
    """The rows of a real choice between speed and accuracy, the most accurate first.

    Rows whose accuracy is not surely below that of the most accurate one count as equal to it: the fastest of
    them stands for all. The next point of the front is found in the same way among the faster rows that
    remain. Rows without speed or accuracy are left out.
    """
    left = [row for row in rows if speed_of(row) and row.accuracy is not None]
    found: list[Row] = []
    while left:
        best = max(left, key=lambda row: (row.accuracy or 0.0, speed_of(row) or 0.0))
        worse: list[Row] = []
        equal: list[Row] = []
        for row in left:
            (worse if _surely_below(row, best) else equal).append(row)
        found.append(fastest(equal))
        least = speed_of(found[-1]) or 0.0
        left = [row for row in worse if (speed_of(row) or 0.0) > least]
    return found


def knee(points: Sequence[tuple[float, float]]) -> int | None:
    """The position of the knee of a front of (speed, accuracy), in the order of `front`.

    It is the point farthest above the line between both ends, with both axes scaled to 1 (Das, On
    Characterizing the "Knee" of the Pareto Curve, Structural Optimization 18, 1999). None: no point is above
    the line, for example because there are only two.
    """
    if len(points) < 3:
        return 0 if len(points) == 1 else None
    (speed, accuracy), (highest, lowest) = points[0], points[-1]
    above = [
        (one - speed) / (highest - speed) + (other - lowest) / (accuracy - lowest) - 1
        for one, other in points
    ]
    place = max(range(len(points)), key=above.__getitem__)
    return place if above[place] > _ROUNDING else None


def _surely_below(row: Row, best: Row) -> bool:
    """Whether a row is less accurate by more than the noise, as far as that is known."""
    lost = (best.accuracy or 0.0) - (row.accuracy or 0.0)
    return lost > (accuracy_reach(row, best) or 0.0) + _ROUNDING
