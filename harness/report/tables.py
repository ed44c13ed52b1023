"""The tables of a report, still without a format: measured targets first, emulated ones apart from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from harness.configuration.matrix import Build
from harness.report.notes import (
    COUNTED_BY_EMULATOR,
    MARK,
    THROTTLED,
    cause_notes,
    general_notes,
    instruction_notes,
    percentile_notes,
)
from harness.report.pareto import MIB
from harness.report.result import Report, Row, group_of

NOTHING = "–"  # noqa: RUF001 - a dash for figures there are none of
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A heading and what stands below it."""

    heading: str
    text: Callable[[Row], str]
    number: bool = True
    detail: bool = False  # for pages; a terminal has no room for it


@dataclass(frozen=True, kw_only=True)
class Table:
    """A title, headings and rows of text; `notes` are sentences below it."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default_factory=list)

    def cells(self, row: Row) -> list[str]:
        return [column.text(row) for column in self.columns]

    def brief(self) -> Table:
        """Without details."""
        return replace(self, columns=[column for column in self.columns if not column.detail])


def tables(report: Report) -> list[Table]:
    """A table for every target, and one for every row of steps."""
    targets = dict.fromkeys((row.emulated, row.target) for row in report.rows if not row.step)
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in report.rows:
        if row.step:
            groups.setdefault(group_of(row), []).append(row)
    return [
        *(_table(report, target, emulated) for emulated, target in sorted(targets, key=lambda pair: pair[0])),
        *(_steps_table(report, rows) for rows in groups.values()),
    ]


def _steps_table(report: Report, rows: Sequence[Row]) -> Table:
    """Steps in their order, each with what it gained."""
    first = rows[0]
    columns = [Column(heading="step", text=lambda row: row.step, number=False)]
    if len({row.threads for row in rows}) > 1:
        columns.append(Column(heading="threads", text=lambda row: str(row.threads)))
    columns += _EMULATED_STEPS if first.emulated else _MEASURED_STEPS
    columns += _where_known(rows)
    if any(row.status != "done" for row in rows):
        columns.append(Column(heading="status", text=lambda row: row.status, number=False))
    names = [first.model, first.policy]
    names += [first.toolchain] if first.toolchain != Build().name else []
    target = f"{first.target} (emulated)" if first.emulated else first.target
    notes = [f"{row.step}: {row.note}" for row in rows if row.note]
    return Table(
        title=f"{report.sweep}: {' '.join(names)} on {target}",
        columns=columns,
        rows=rows,
        notes=[*notes, *instruction_notes(rows), *general_notes(rows), *cause_notes(rows)],
    )


def _table(report: Report, target: str, emulated: bool) -> Table:
    rows = [row for row in report.rows if (row.target, row.emulated) == (target, emulated)]
    columns = _identity(rows)
    columns += _EMULATED if emulated else _measured(rows)
    columns += _where_known(rows)
    if any(row.accuracy is not None for row in rows):
        columns.append(Column(heading=_metrics(rows), text=_accuracy))
    if any(row.digest_matches_host is not None for row in rows):
        columns.append(Column(heading="outputs", text=_outputs, number=False))
    if emulated:
        columns.append(Column(heading="emulated wall ms", text=lambda row: figure(row.p50_ms)))
    if any(row.status != "done" for row in rows):
        columns.append(Column(heading="status", text=lambda row: row.status, number=False))
    title = f"{target} (emulated)" if emulated else target
    return Table(
        title=f"{report.sweep}: {title}",
        columns=columns,
        rows=rows,
        notes=[*general_notes(rows), *percentile_notes(rows), *cause_notes(rows)],
    )


def _measured(rows: Sequence[Row]) -> list[Column]:
    p99 = _P99 if any(row.p99_interval_ms for row in rows) else ()
    return [*_TIMES, *p99, *_PEAKS]


def _where_known(rows: Sequence[Row]) -> list[Column]:
    """The columns of what only some boards and runs have."""
    energy = [_ENERGY] if any(row.energy_mj is not None for row in rows) else []
    return [*energy, *(_SUSTAINED if any(row.course for row in rows) else ())]


def _identity(rows: Sequence[Row]) -> list[Column]:
    columns = [
        Column(heading="", text=lambda row: MARK if row.pareto_optimal else "", number=False),
        Column(heading="model", text=lambda row: row.model, number=False),
        Column(heading="policy", text=lambda row: row.policy, number=False),
    ]
    if len({row.runtime for row in rows}) > 1:
        columns.append(Column(heading="runtime", text=lambda row: row.runtime, number=False))
    if len({row.toolchain for row in rows}) > 1:
        columns.append(Column(heading="toolchain", text=lambda row: row.toolchain, number=False))
    columns.append(Column(heading="threads", text=lambda row: str(row.threads)))
    if any(row.options for row in rows):
        columns.append(Column(heading="options", text=lambda row: row.options, number=False))
    return columns


def figure(value: float | None, unit: float = 1) -> str:
    """Three significant digits, no exponent."""
    if value is None:
        return NOTHING
    scaled = value / unit
    digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:,.{digits}f}"


def _fps(row: Row) -> str:
    return figure(row.fps) + (f" {THROTTLED}" if row.throttled else "")


def _over_time(row: Row, key: str, place: int) -> float | None:
    return row.course[place][key] if row.course else None


def _sparkline(row: Row, width: int = 20) -> str:
    """FPS over a sustained run, from nothing to the most; each block is a mean over a share of the points."""
    speeds = [point["fps"] or 0.0 for point in row.course or ()]
    if not speeds:
        return NOTHING
    width = min(width, len(speeds))
    shares = [speeds[n * len(speeds) // width : (n + 1) * len(speeds) // width] for n in range(width)]
    means = [sum(share) / len(share) for share in shares]
    return "".join(_BLOCKS[round((len(_BLOCKS) - 1) * mean / max(speeds))] for mean in means)


def _ends(interval: tuple[float, float] | None) -> str:
    return NOTHING if interval is None else f"{figure(interval[0])} to {figure(interval[1])}"


def _predicted_ends(row: Row) -> str:
    low, high = row.predicted_low_ms, row.predicted_high_ms
    return _ends(None if low is None or high is None else (low, high))


def _p99(row: Row) -> str:
    return figure(row.p99_ms) if row.p99_interval_ms else NOTHING


def _planned(row: Row) -> str:
    if row.arena_bytes is None or row.weight_bytes is None:
        return NOTHING
    return figure(row.arena_bytes + row.weight_bytes, MIB)


def _metrics(rows: Sequence[Row]) -> str:
    names = {"map50": "mAP50", "top1": "top-1"}
    return "/".join(sorted({names[row.accuracy_metric] for row in rows if row.accuracy_metric})) + " %"


def _accuracy(row: Row) -> str:
    return NOTHING if row.accuracy is None else f"{100 * row.accuracy:.2f}"


def _outputs(row: Row) -> str:
    if row.digest_matches_host is None:
        return NOTHING
    return "as on host" if row.digest_matches_host else "differ (float)"


def _times(value: float | None) -> str:
    return NOTHING if value is None else f"{figure(value)}x"


def _instructions(row: Row) -> str:
    mark = COUNTED_BY_EMULATOR if row.instructions_isa else ""
    return figure(row.instructions, 1e6) + mark


_TIMES = (
    Column(heading="FPS", text=_fps),
    Column(heading="p50 ms", text=lambda row: figure(row.p50_ms)),
    Column(heading="p50 at 95 %", text=lambda row: _ends(row.p50_interval_ms)),
    Column(heading="p90 ms", text=lambda row: figure(row.p90_ms)),
    Column(heading="p90 at 95 %", text=lambda row: _ends(row.p90_interval_ms), detail=True),
)
_P99 = (
    Column(heading="p99 ms", text=_p99),
    Column(heading="p99 at 95 %", text=lambda row: _ends(row.p99_interval_ms), detail=True),
)
_PEAKS = (
    Column(heading="peak MiB", text=lambda row: figure(row.peak_rss_bytes, MIB)),
    Column(heading="arena MiB", text=lambda row: figure(row.arena_bytes, MIB)),
)
_SUSTAINED = (
    Column(heading="minutes", text=lambda row: figure(_over_time(row, "seconds", -1), 60)),
    Column(heading="FPS at first", text=lambda row: figure(_over_time(row, "fps", 0))),
    Column(heading="FPS at last", text=lambda row: figure(_over_time(row, "fps", -1))),
    Column(heading="°C at last", text=lambda row: figure(_over_time(row, "celsius", -1))),
    Column(heading="FPS over time", text=_sparkline, number=False),
)
_EMULATED = (
    Column(heading="predicted FPS", text=lambda row: figure(row.predicted_fps)),
    Column(heading="predicted ms", text=lambda row: figure(row.predicted_ms)),
    Column(heading="interval ms", text=_predicted_ends),
    Column(heading="MB moved", text=lambda row: figure(row.bytes_moved, 1e6)),
    Column(heading="M instructions", text=lambda row: figure(row.instructions, 1e6)),
    Column(heading="arena + weights MiB", text=_planned),
)
_ENERGY = Column(heading="mJ", text=lambda row: figure(row.energy_mj))
_GAINS = (
    Column(heading="over the step before", text=lambda row: _times(row.over_previous)),
    Column(heading="over the first", text=lambda row: _times(row.over_first)),
)
_MEMORY = (
    Column(heading="arena MiB", text=lambda row: figure(row.arena_bytes, MIB)),
    Column(heading="weights MiB", text=lambda row: figure(row.weight_bytes, MIB)),
)
_MEASURED_STEPS = (
    Column(heading="FPS", text=lambda row: figure(row.fps)),
    Column(heading="p50 ms", text=lambda row: figure(row.p50_ms)),
    *_GAINS,
    Column(heading="M instructions", text=_instructions),
    *_MEMORY,
)
_EMULATED_STEPS = (
    Column(heading="predicted FPS", text=lambda row: figure(row.predicted_fps)),
    Column(heading="predicted ms", text=lambda row: figure(row.predicted_ms)),
    *_GAINS,
    Column(heading="M instructions", text=_instructions),
    Column(heading="MB moved", text=lambda row: figure(row.bytes_moved, 1e6)),
    *_MEMORY,
)
