"""Chooses a row: the fastest that meets all limits, and where noise hides which one is, the more accurate or
the smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.advice.judgement import Judged, judged
from harness.advice.limits import ROUNDING, Check, Kind, Limits
from harness.measure.intervals import ratio_interval
from harness.report.comparison import BASELINE, accuracy_reach
from harness.report.pareto import MIB
from harness.report.result import Row


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The row that comes nearest to one limit, of those that miss the fewest others."""

    kind: Kind
    judged: Judged


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The choice among the rows of one model on one target."""

    limits: Limits
    rows: Sequence[Judged]  # with a result, the fastest first
    without_result: Sequence[Row]
    recommended: Judged | None
    as_fast: Sequence[Judged]  # others that meet all limits and whose speed differs by no more than noise
    nearest: Sequence[Nearest]  # if nothing meets all limits

    @property
    def too_lossy(self) -> list[Judged]:
        """The rows that only lose too much, and are faster than the recommended one."""
        chosen = self.recommended
        return [
            each
            for each in self.rows
            if [check.kind for check in each.missed] == ["loss"]
            and not each.unknown
            and (chosen is None or _surely_faster(each, chosen))
        ]

    @property
    def cited(self) -> list[Judged]:
        """The rows that the answer rests on: the recommended one, those as fast or faster, the best of each
        other runtime, the nearest ones, and the fp32 rows that these are compared with; the fastest first."""
        chosen = self.recommended
        best: dict[str, Judged] = {}
        for each in sorted(self.rows, key=lambda each: not each.meets) if chosen else ():
            best.setdefault(each.row.runtime, each)
        deciding = [chosen, *self.as_fast, *(near.judged for near in self.nearest)]
        rows = [each.row for each in deciding if each]
        return [
            each
            for each in self.rows
            if any(each.row is row for row in rows)
            or (chosen and each.speed > chosen.speed)
            or any(each is one for one in best.values())
            or (each.row.policy == BASELINE and any(_differ_in_policy(each.row, row) for row in rows))
        ]


def advise(rows: Sequence[Row], limits: Limits) -> Advice:
    """The choice among rows, which are those of one model on one target, all emulated or all measured."""
    found = sorted(judged(rows, limits), key=_order, reverse=True)
    meeting = [each for each in found if each.meets]
    fastest = _not_surely_worse(meeting, _clearly_faster)
    recommended = _chosen(fastest)
    return Advice(
        limits=limits,
        rows=found,
        without_result=[row for row in rows if row.status != "done"],
        recommended=recommended,
        as_fast=[each for each in fastest if each is not recommended],
        nearest=[] if recommended else _nearest(found),
    )


def _differ_in_policy(one: Row, other: Row) -> bool:
    """Whether two rows of the same model and target have all but the policy in common."""
    alike = ("runtime", "toolchain", "threads", "options", "step")
    return all(getattr(one, name) == getattr(other, name) for name in alike)


def _order(each: Judged) -> tuple[float, str]:
    """The name makes the order of equal speeds the same in every run."""
    return each.speed, each.row.name


def _chosen(fastest: Sequence[Judged]) -> Judged | None:
    """Of rows that are equally fast, one that is not surely less accurate than another, and the smallest."""
    by_loss = sorted(fastest, key=lambda each: each.loss.value or 0.0)
    accurate = _not_surely_worse(by_loss, _surely_more_accurate)
    return min(accurate, key=lambda each: (_mebibytes(each), -each.speed), default=None)


def _not_surely_worse(
    best_first: Sequence[Judged], surely_better: Callable[[Judged, Judged], bool]
) -> list[Judged]:
    return [each for each in best_first if each is best_first[0] or not surely_better(best_first[0], each)]


def _surely_faster(one: Judged, other: Judged) -> bool:
    """Predicted times have no noise of their own; their errors are alike on one board."""
    if _significant(one.speed) <= _significant(other.speed):
        return False
    time, others = one.row.mean_time, other.row.mean_time
    return not time or not others or ratio_interval(time, others)[0] > 1


def _clearly_faster(one: Judged, other: Judged) -> bool:
    """The same, or the other's figure is below the interval of the first: a row is not as fast as another one
    just because it was measured badly."""
    ends = None if one.row.emulated else one.row.fps_interval
    return _surely_faster(one, other) or (ends is not None and other.speed < ends[0])


def _surely_more_accurate(one: Judged, other: Judged) -> bool:
    gain = round((other.loss.value or 0.0) - (one.loss.value or 0.0), 4)
    reach = accuracy_reach(one.row, other.row)
    return gain > (reach or 0.0)


def _mebibytes(each: Judged) -> float:
    """As a table shows it; unknown memory is the largest."""
    return float("inf") if each.memory is None else round(each.memory / MIB, 1)


def _significant(value: float) -> float:
    return float(f"{value:.3g}")


def _nearest(rows: Sequence[Judged]) -> list[Nearest]:
    """For each limit that some row misses, the nearest of the rows that miss the fewest other limits. A row
    with an unknown figure is never the nearest."""
    known = [each for each in rows if not each.unknown]
    kinds = dict.fromkeys(check.kind for each in known for check in each.missed)

    def distance(each: Judged, kind: Kind) -> tuple[int, float]:
        others = sum(check.kind != kind for check in each.missed)
        return others, sum(check.miss for check in each.missed if check.kind == kind)

    return [
        Nearest(kind=kind, judged=min(_missing(known, kind), key=lambda each: distance(each, kind)))
        for kind in kinds
    ]


def _missing(rows: Sequence[Judged], kind: Kind) -> list[Judged]:
    return [each for each in rows if any(check.kind == kind for check in each.missed)]


def pictures_to_tell(check: Check, pictures: int) -> float | None:
    """About how many pictures would tell on which side of the limit a loss is: an interval shrinks with the
    square root of their number. None: there is no interval, or the loss is the limit itself."""
    if check.value is None or check.interval is None:
        return None
    margin = abs(check.value - check.limit)
    reach = (check.interval[1] - check.interval[0]) / 2
    return pictures * (reach / margin) ** 2 if margin > ROUNDING else None
