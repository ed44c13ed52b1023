"""What differs between the two results of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.measure.ratio_test import TimeRatio, holm, time_ratios, typical_time, why_untested
from harness.report.compare.conditions import Pair
from harness.report.compare.side import Side
from harness.report.result import Row

SIGNIFICANT = 0.05  # the largest adjusted p-value of a significant difference

LABELS = {
    "arena_bytes": "arena",
    "weight_bytes": "weights",
    "isa": "instruction set",
    "instructions": "instructions",
    "bytes_moved": "bytes moved",
    "accuracy": "accuracy",
    "digest": "outputs",
}  # of changes

Outcome = Literal["slower", "faster", "no difference", "same result", "not tested", "no result"]
Figure = Literal["time_ms", "predicted_ms", "instructions"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A figure that does not vary from run to run, and differs."""

    name: str
    a: float | str
    b: float | str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A cell in A and in B. `ratio` is that of the figure in B and in A."""

    a: Row
    b: Row
    outcome: Outcome
    figure: Figure | None = None  # what `ratio` is about; None: one side has no result
    value_a: float | None = None
    value_b: float | None = None
    ratio: float | None = None
    low: float | None = None  # 95 % confidence interval of a measured ratio; an exact ratio has no width
    high: float | None = None
    p_value: float | None = None
    p_value_adjusted: float | None = None  # for the number of tested cells
    effect_size: float | None = None  # in standard deviations between processes
    significant: bool | None = None  # None: not tested
    instruction_ratio: float | None = None
    regression: bool = False  # slower by more than the limit
    reason: str | None = None  # for a missing test or result
    changes: Sequence[Change] = ()
    rounds_a: int | None = None
    rounds_b: int | None = None

    @property
    def throttled(self) -> bool:
        return bool(self.a.throttled or self.b.throttled)


def differences(pairs: Sequence[Pair], a: Side, b: Side, limit: float | None) -> list[Difference]:
    """The difference of each pair. `limit`: the growth that makes a slower cell a regression, as a fraction;
    None: no cell is one."""
    same_store = a.folder.resolve() == b.folder.resolve()
    found = [_difference(pair, same_store) for pair in pairs]
    _test(found, pairs)
    return [replace(each, regression=_is_regression(each, limit)) for each in found]


def _difference(pair: Pair, same_store: bool) -> Difference:
    """The difference of a pair without a test."""
    a, b = pair
    if a.row.status != "done" or b.row.status != "done":
        return Difference(a=a.row, b=b.row, outcome="no result", reason=_why_no_result(a.row, b.row))
    same = same_store and a.key == b.key
    if a.row.emulated:
        return _exact(a.row, b.row, same)
    value_a, value_b = (typical_time(cell.rounds) / 1e6 for cell in pair)
    return Difference(
        a=a.row,
        b=b.row,
        outcome="same result" if same else "not tested",
        figure="time_ms",
        value_a=value_a,
        value_b=value_b,
        ratio=value_b / value_a,
        reason=None if same else why_untested(len(a.rounds), len(b.rounds)),
        changes=list(changes_between(a.row, b.row)),
        rounds_a=len(a.rounds),
        rounds_b=len(b.rounds),
    )


def _why_no_result(a: Row, b: Row) -> str:
    return "; ".join(
        f"{row.status} in {label}" + (f": {row.error}" if row.error else "")
        for label, row in (("A", a), ("B", b))
        if row.status != "done"
    )


def _exact(a: Row, b: Row, same: bool) -> Difference:
    """The difference of emulated cells, whose figures are computed: no test is needed."""
    instructions = a.instructions and b.instructions and b.instructions / a.instructions
    found = Difference(
        a=a,
        b=b,
        outcome="not tested",
        instruction_ratio=instructions or None,
        changes=list(changes_between(a, b)),
    )
    if a.predicted_ms and b.predicted_ms:
        found = replace(found, figure="predicted_ms", value_a=a.predicted_ms, value_b=b.predicted_ms)
    elif a.instructions and b.instructions:
        found = replace(found, figure="instructions", value_a=a.instructions, value_b=b.instructions)
    if not found.value_a or not found.value_b:
        return replace(found, reason="one side has neither a prediction nor a count of instructions")
    ratio = found.value_b / found.value_a
    outcome: Outcome = "slower" if ratio > 1 else "faster" if ratio < 1 else "no difference"
    return replace(
        found,
        outcome="same result" if same else outcome,
        ratio=ratio,
        low=ratio,
        high=ratio,
        significant=ratio != 1,
    )


def _test(found: list[Difference], pairs: Sequence[Pair]) -> None:
    """Tests all measured cells that can be tested; those of one target together."""
    targets: dict[str, list[int]] = {}
    for index, each in enumerate(found):
        if each.outcome == "not tested" and each.figure == "time_ms" and each.reason is None:
            targets.setdefault(each.b.target, []).append(index)
    tested: dict[int, TimeRatio] = {}
    for indices in targets.values():
        ratios = time_ratios([(pairs[index][0].rounds, pairs[index][1].rounds) for index in indices])
        tested |= dict(zip(indices, ratios, strict=True))
    adjusted = holm([ratio.p_value for ratio in tested.values()])
    for (index, ratio), p_value in zip(tested.items(), adjusted, strict=True):
        significant = p_value <= SIGNIFICANT
        found[index] = replace(
            found[index],
            **vars(ratio),
            p_value_adjusted=p_value,
            significant=significant,
            outcome="no difference" if not significant else "slower" if ratio.ratio > 1 else "faster",
        )


def _is_regression(difference: Difference, limit: float | None) -> bool:
    if limit is None:
        return False
    slower = difference.outcome == "slower" and (difference.ratio or 0) > 1 + limit
    return slower or (difference.instruction_ratio or 0) > 1 + limit


def changes_between(a: Row, b: Row) -> Iterator[Change]:
    """The exact figures that differ. Those that one side does not know are not compared."""
    names = ["arena_bytes", "weight_bytes", "isa"]
    names += ["instructions"] if a.emulated or (a.instructions_isa and b.instructions_isa) else []
    names += ["bytes_moved"] if a.emulated else []
    names += ["accuracy"] if _same_pictures(a, b) else []
    names += ["digest"] if len(a.digests or ()) == len(b.digests or ()) else []
    for name in names:
        one, other = getattr(a, name), getattr(b, name)
        if one is not None and other is not None and one != other:
            yield Change(name=name, a=one, b=other)


def _same_pictures(a: Row, b: Row) -> bool:
    """Whether accuracies are of the same metric and, as far as known, of the same pictures."""
    draws = [row.resampled.draws if row.resampled else None for row in (a, b)]
    same_images = a.scores.get("images") == b.scores.get("images")
    return a.accuracy_metric == b.accuracy_metric and same_images and (None in draws or draws[0] == draws[1])
