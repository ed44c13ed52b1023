"""An advice in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.advice.choice import Advice, Nearest, pictures_to_tell
from harness.advice.judgement import Judged
from harness.advice.limits import Check, Kind, Limits
from harness.config.sweep import Build
from harness.report.choice import speed_interval_of
from harness.report.columns import NAMES_OF_METRICS
from harness.report.comparison import BASELINE
from harness.report.notes import cause_notes, reliability_notes
from harness.report.pareto import MIB
from harness.report.result import Row
from harness.report.table import figure
from harness.text import printable

_MOST_PICTURES = 1_000_000
_PLANNED = (
    "Memory: what the engine plans for activations and weights. On the board the process also needs its "
    "program and libraries."
)


def answer(advice: Advice) -> list[str]:
    """The recommendation and the reason for it, or what comes nearest."""
    chosen = advice.recommended
    if not advice.rows:
        return ["No cell has a result."]
    if chosen is None:
        return [f"No result meets {limits_in_words(advice)}.", *map(_near, advice.nearest)]
    sentences = [f"Take {row_name(chosen.row)}: {_speed(chosen.row)}, {_memory(chosen)}, {_loss(chosen)}."]
    if advice.as_fast:
        names = "; ".join(row_name(each.row) for each in advice.as_fast)
        sentences.append(
            f"As fast within the noise: {names}. Of these, rows that surely lose more were left out, and the "
            "smallest was taken."
        )
    if lossy := advice.too_lossy:
        fastest = lossy[0]
        sentences.append(
            f"Faster, but loses too much: {row_name(fastest.row)}: {_speed(fastest.row)}, {_loss(fastest)}."
        )
    return sentences


def limits_in_words(advice: Advice) -> str:
    """For example `at least 30 FPS, at most 64 MiB, at most 0.5 points lost`."""
    limits = advice.limits
    parts = [] if limits.min_fps is None else [f"at least {limits.min_fps:,g} FPS"]
    parts += [] if limits.max_memory is None else [f"at most {limits.max_memory / MIB:g} MiB"]
    return ", ".join([*parts, _allowed_loss(advice.rows, limits)])


def unknowns(advice: Advice) -> list[str]:
    """What is not known, and what would tell."""
    cited = [each.row for each in advice.cited]
    return [
        *_doubts(advice),
        *_missing_figures(advice.rows),
        *([_PLANNED] if advice.limits.max_memory and any(row.emulated for row in cited) else []),
        *cause_notes(advice.without_result),
        *(reliability_notes(cited) if cited else []),
    ]


def row_name(row: Row) -> str:
    """A row where model and target are known: `int8 in the engine, 2 threads`."""
    runtime = "the engine" if row.runtime == "engine" else row.runtime
    parts = [f"{row.policy} in {runtime}", f"{row.threads} thread{'s'[: row.threads > 1]}"]
    parts += [row.toolchain] if row.toolchain != Build().name else []
    parts += [row.step or row.options] if row.step or row.options else []
    return printable(", ".join(parts))


def misses(each: Judged) -> str:
    """What a row misses or lacks, for a table."""
    names: dict[Kind, str] = {"speed": "FPS", "memory": "MiB", "loss": "loss"}
    missed = [names[check.kind] for check in each.missed]
    unknown = [f"{names[check.kind]} unknown" for check in each.unknown]
    return ", ".join([*missed, *unknown])


def _allowed_loss(rows: Sequence[Judged], limits: Limits) -> str:
    if any(each.row.accuracy_metric == "agreement" for each in rows):
        return f"at least {100 * limits.min_agreement:g} % agreement with fp32"
    return f"at most {100 * limits.max_drop:g} points of accuracy lost"


def _speed(row: Row) -> str:
    ends = speed_interval_of(row)
    between = f"{figure(ends[0])} to {figure(ends[1])}" if ends else "unknown"
    if row.emulated:
        words = f"{figure(row.predicted_fps)} FPS predicted for {row.target} (90 % interval {between})"
    else:
        words = f"{figure(row.fps)} FPS measured on {row.target} (95 % interval {between})"
    if row.policy == BASELINE or row.speedup_vs_fp32 is None:
        return words
    return f"{words}, {figure(row.speedup_vs_fp32)} times as fast as fp32"


def _memory(each: Judged) -> str:
    if each.memory is None:
        return "memory unknown"
    what = "arena and weights" if each.row.emulated else "peak memory"
    return f"{what} {figure(each.memory, MIB)} MiB"


def _loss(each: Judged) -> str:
    check = each.loss
    if each.row.policy == BASELINE:
        return "the reference for accuracy"
    if check.value is None:
        return "loss of accuracy unknown"
    reach = "" if check.interval is None else f" ± {_percent((check.interval[1] - check.interval[0]) / 2)}"
    metric = NAMES_OF_METRICS.get(each.row.accuracy_metric or "", "accuracy")
    noun = "gain" if check.value < 0 else "loss"
    return f"{noun} {_percent(abs(check.value))}{reach} points of {metric}{_pictures(each.row)}"


def _pictures(row: Row) -> str:
    images = row.scores.get("images")
    return f" on {images:,} pictures" if isinstance(images, int) else ""


def _near(near: Nearest) -> str:
    each = near.judged
    missed = ", and ".join(map(_miss, each.missed))
    if len(each.missed) == 1:
        missed += "; it meets the other limits"
    return f"Nearest in {near.kind}: {row_name(each.row)}, which {missed}."


def _miss(check: Check) -> str:
    value = check.value or 0.0
    if check.kind == "speed":
        return f"reaches {figure(value)} of {check.limit:,g} FPS ({100 * value / check.limit:.0f} %)"
    if check.kind == "memory":
        return f"needs {figure(value, MIB)} MiB, {figure(check.miss, MIB)} MiB more than allowed"
    return f"loses {_percent(value)} points, {_percent(check.miss)} more than allowed"


def _doubts(advice: Advice) -> Iterator[str]:
    """Figures so close to their limit that their interval crosses it, of the rows that decide."""
    deciding = [advice.recommended, *advice.too_lossy[:1], *(near.judged for near in advice.nearest)]
    for one in advice.rows:
        if not any(one is each for each in deciding):
            continue
        for check in one.checks:
            if check.kind == "speed" and check.sure is False:
                yield _speed_doubt(one, check)
            elif check.kind == "loss" and check.sure is False:
                yield _loss_doubt(one, check)
            elif check.kind == "loss" and check.value is not None and check.interval is None:
                yield _loss_without_interval(one, check)


def _speed_doubt(one: Judged, check: Check) -> str:
    more = "a run on a board" if one.row.emulated else "more rounds"
    return (
        f"Whether {row_name(one.row)} reaches {check.limit:g} FPS: the interval of its {figure(check.value)} "
        f"FPS holds the limit; {more} would tell."
    )


def _loss_doubt(one: Judged, check: Check) -> str:
    images = one.row.scores.get("images")
    needed = pictures_to_tell(check, images) if isinstance(images, int) else None
    if needed is None:
        more = "more pictures would tell"
    elif needed > _MOST_PICTURES:
        more = "more than a million would be needed to tell"
    else:
        more = f"about {_rounded_up(needed):,} of the same kind would tell"
    return (
        f"Whether {row_name(one.row)} loses more than {_percent(check.limit)} points: the interval"
        f"{_pictures(one.row)} holds the limit; {more}."
    )


def _loss_without_interval(one: Judged, check: Check) -> str:
    """Of pictures without any difference, three divided by the limit are enough: with a larger share of
    pictures that differ, so many would all be alike in less than 5 % of cases (the rule of three; Hanley and
    Lippman-Hand, If Nothing Goes Wrong, Is Everything All Right?, JAMA 249, 1983)."""
    loss = f"Whether {row_name(one.row)} loses more than {_percent(check.limit)} points"
    ends = one.row.accuracy_change_interval
    if ends is None:
        return f"{loss}: no interval ({one.row.accuracy_change_interval_unavailable_reason})."
    enough = ""
    if one.row.accuracy_metric == "top1" and check.limit > 0:
        enough = f"; about {_rounded_up(3 / check.limit):,} without any would exclude it"
    return f"{loss}: no difference was seen{_pictures(one.row)}{enough}."


def _rounded_up(count: float) -> int:
    """To two digits."""
    step: int = 10 ** max(len(str(int(count))) - 2, 0)
    return math.ceil(count / step) * step


def _missing_figures(rows: Sequence[Judged]) -> Iterator[str]:
    """Rows that cannot be judged because a figure is unknown, once for each reason."""
    concerned: dict[tuple[Kind, str], list[str]] = {}
    evaluated = any(each.row.accuracy is not None for each in rows)
    if rows and not evaluated:
        yield (
            "Loss: no accuracy was evaluated, so only fp32 meets a limit of it. Name pictures with --dataset "
            "or in the sweep, or allow any loss with --max-drop 100."
        )
    for each in rows:
        for check in each.unknown:
            if check.kind != "loss" or evaluated:
                concerned.setdefault((check.kind, check.unknown), []).append(row_name(each.row))
    for (kind, reason), names in concerned.items():
        which = "; ".join(names) if len(names) <= 3 else f"{len(names)} rows"
        yield f"{kind.capitalize()} of {which}: {reason}."


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f}"
