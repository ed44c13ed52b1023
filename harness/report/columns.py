"""The columns of a report's tables: their contents, and the order in which narrow terminals drop them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report import table
from harness.report.comparison import BASELINE, TOO_FEW_ROUNDS
from harness.report.notes import COUNTED_BY_EMULATOR, MARK, THROTTLED
from harness.report.pareto import MIB
from harness.report.result import Row
from harness.report.table import NOTHING, figure

Column = table.Column[Row]
NAMES_OF_METRICS = {"map50": "mAP@0.5", "top1": "top-1", "agreement": "agreement"}
BLOCKS = "▁▂▃▄▅▆▇█"


def _fps(row: Row) -> str:
    return figure(row.fps) + (f" {THROTTLED}" if row.throttled else "")


def _over_time(row: Row, key: str, place: int) -> float | None:
    value: float | None = getattr(row.time_series[place], key) if row.time_series else None
    return value


def _sparkline(row: Row, width: int = 20) -> str:
    """FPS over a sustained run, from 0 to the maximum; each block is the mean of some points."""
    speeds = [point.fps for point in row.time_series or ()]
    if not speeds:
        return NOTHING
    width = min(width, len(speeds))
    shares = [speeds[n * len(speeds) // width : (n + 1) * len(speeds) // width] for n in range(width)]
    means = [sum(share) / len(share) for share in shares]
    return "".join(BLOCKS[round((len(BLOCKS) - 1) * mean / max(speeds))] for mean in means)


def _ends(interval: tuple[float, float] | None, missing: str | None = None) -> str:
    if interval is None:
        return TOO_FEW_ROUNDS if (missing or "").startswith(TOO_FEW_ROUNDS) else NOTHING
    return f"{figure(interval[0])} to {figure(interval[1])}"


def _predicted_ends(row: Row) -> str:
    low, high = row.predicted_low_ms, row.predicted_high_ms
    return _ends(None if low is None or high is None else (low, high))


def _p99(row: Row) -> str:
    return figure(row.p99_ms) if has_p99(row) else NOTHING


def _peaks(rows: Sequence[Row]) -> list[Column]:
    """The memory of the process; without the interpreter's share, if a runtime needs one."""
    peak, arena = _PEAKS
    return [
        peak,
        *([_ALONE] if any(row.interpreter_rss_bytes for row in rows) else []),
        arena,
        *_files(rows),
    ]


def _files(rows: Sequence[Row]) -> list[Column]:
    """The size of the model's file, where a runtime executes one."""
    return [_FILE] if any(row.file_bytes for row in rows) else []


def _alone(row: Row) -> str:
    if row.peak_rss_bytes is None:
        return NOTHING
    return figure(row.peak_rss_bytes - (row.interpreter_rss_bytes or 0), MIB)


def _planned(row: Row) -> str:
    if row.arena_bytes is None or row.weight_bytes is None:
        return NOTHING
    return figure(row.arena_bytes + row.weight_bytes, MIB)


def _accuracy(row: Row) -> str:
    return NOTHING if row.accuracy is None else f"{100 * row.accuracy:.2f}"


def _outputs(row: Row) -> str:
    if row.digest_matches_host is None:
        return NOTHING
    return "yes" if row.digest_matches_host else "no (float)"


def _times(value: float | None) -> str:
    return NOTHING if value is None else f"{figure(value)}x"


def _instructions(row: Row) -> str:
    mark = COUNTED_BY_EMULATOR if row.instructions_isa else ""
    return figure(row.instructions, 1e6) + mark


def identity(rows: Sequence[Row]) -> tuple[list[Column], str]:
    """The columns in which rows differ, and a text with the values that all rows share."""
    columns = [
        Column(heading="", text=lambda row: MARK if row.pareto_optimal else "", number=False),
        _MODEL,
        Column(heading="policy", text=lambda row: row.policy, number=False),
        *(column for column in (_RUNTIME, _TOOLCHAIN) if _differs(rows, column)),
        _THREADS,
        *([_OPTIONS] if any(row.options for row in rows) else []),
    ]
    if len(rows) < 2:  # nothing to compare
        return columns, ""
    alike = [column for column in _CONDITIONS if not _differs(rows, column) and column.text(rows[0])]
    common = ", ".join(f"{column.heading} {column.text(rows[0])}" for column in alike)
    return [column for column in columns if column not in alike], common


def _differs(rows: Sequence[Row], column: Column) -> bool:
    return len({column.text(row) for row in rows}) > 1


def against_fp32(rows: Sequence[Row]) -> tuple[list[Column], list[Column]]:
    """The speed-up and the change in accuracy against fp32, as far as there is something to compare."""
    others = [row for row in rows if row.policy != BASELINE]
    speed = [_SPEEDUP] if any(row.speedup_vs_fp32 for row in others) else []
    if any(row.speedup_interval or row.mean_time for row in others) or any(
        (row.speedup_interval_unavailable_reason or "").startswith(TOO_FEW_ROUNDS) for row in others
    ):
        speed += [_SPEEDUP_ENDS] if speed else []
    change = [_CHANGE] if any(row.accuracy_change is not None for row in others) else []
    return speed, change


def measured(rows: Sequence[Row]) -> list[Column]:
    """The columns of measured cells."""
    p99 = _P99 if any(has_p99(row) for row in rows) else ()
    return [_FPS, *against_fp32(rows)[0], *_TIMES, *p99, *_peaks(rows), *where_known(rows)]


def emulated(rows: Sequence[Row]) -> list[Column]:
    """The columns of emulated cells."""
    first, *others = _EMULATED
    return [first, *against_fp32(rows)[0], *others, *_files(rows), *where_known(rows)]


def steps(rows: Sequence[Row]) -> list[Column]:
    """The columns of a sweep of steps."""
    first, *others = _EMULATED_STEPS if rows[0].emulated else _MEASURED_STEPS
    return [first, *against_fp32(rows)[0], *others, *where_known(rows)]


def accuracy(rows: Sequence[Row]) -> list[Column]:
    """The accuracy, if it was evaluated."""
    if all(row.accuracy is None for row in rows):
        return []
    return [Column(heading=metrics(rows), text=_accuracy, spare=3), *against_fp32(rows)[1]]


def ending(rows: Sequence[Row]) -> list[Column]:
    """The status, if some cells are not done."""
    return [_STATUS] if any(row.status != "done" for row in rows) else []


def where_known(rows: Sequence[Row]) -> list[Column]:
    """The columns that only some boards and runs have."""
    energy = [_ENERGY] if any(row.energy_mj is not None for row in rows) else []
    return [*energy, *(_SUSTAINED if any(row.time_series for row in rows) else ())]


def has_p99(row: Row) -> bool:
    """Whether there are enough samples for a p99 that is not just the longest sample."""
    return row.p99_interval_ms is not None or (row.samples or 0) >= 100


def metrics(rows: Sequence[Row]) -> str:
    """The metrics of the accuracies."""
    return (
        "/".join(sorted({NAMES_OF_METRICS[row.accuracy_metric] for row in rows if row.accuracy_metric}))
        + " %"
    )


def _speedup_ends(row: Row) -> str:
    return _ends(row.speedup_interval, row.speedup_interval_unavailable_reason)


def _change(row: Row) -> str:
    if row.accuracy_change is None:
        return NOTHING
    change = f"{100 * row.accuracy_change + 0:+.2f}"
    if row.accuracy_change_interval is None:
        return change
    return f"{change} ± {50 * (row.accuracy_change_interval[1] - row.accuracy_change_interval[0]):.2f}"


_MODEL = Column(heading="model", text=lambda row: row.model, number=False)
_RUNTIME = Column(heading="runtime", text=lambda row: row.runtime, number=False)
_TOOLCHAIN = Column(heading="toolchain", text=lambda row: row.toolchain, number=False)
_THREADS = Column(heading="threads", text=lambda row: str(row.threads))
_OPTIONS = Column(heading="options", text=lambda row: row.options, number=False)
_CONDITIONS = (_MODEL, _RUNTIME, _TOOLCHAIN, _THREADS, _OPTIONS)
_STATUS = Column(heading="status", text=lambda row: row.status, number=False)
STEP = Column(heading="step", text=lambda row: row.step, number=False)
THREADS = _THREADS
OUTPUTS = Column(heading="same bits", text=_outputs, number=False, spare=12)
_SPEEDUP = Column(heading="speed-up vs fp32", text=lambda row: _times(row.speedup_vs_fp32), spare=1)
_SPEEDUP_ENDS = Column(heading="speed-up 95 % CI", text=_speedup_ends, spare=7)
_CHANGE = Column(heading="accuracy change ± bootstrap", text=_change, spare=2)
_FPS = Column(heading="FPS", text=_fps)
_TIMES = (
    Column(heading="p50 ms", text=lambda row: figure(row.p50_ms), spare=6),
    Column(
        heading="p50 95 % CI",
        text=lambda row: _ends(row.p50_interval_ms, row.p50_interval_unavailable_reason),
        spare=9,
    ),
    Column(heading="p90 ms", text=lambda row: figure(row.p90_ms), spare=10),
    Column(
        heading="p90 95 % CI",
        text=lambda row: _ends(row.p90_interval_ms, row.p90_interval_unavailable_reason),
        detail=True,
    ),
)
_P99 = (
    Column(heading="p99 ms", text=_p99, spare=11),
    Column(
        heading="p99 95 % CI",
        text=lambda row: _ends(row.p99_interval_ms, row.p99_interval_unavailable_reason),
        detail=True,
    ),
)
_PEAKS = (
    Column(heading="peak MiB", text=lambda row: figure(row.peak_rss_bytes, MIB), spare=4),
    Column(heading="arena MiB", text=lambda row: figure(row.arena_bytes, MIB), spare=8),
)
_FILE = Column(heading="file MiB", text=lambda row: figure(row.file_bytes, MIB), spare=8)
_ALONE = Column(heading="without Python MiB", text=_alone, spare=7)
_SUSTAINED = (
    Column(heading="minutes", text=lambda row: figure(_over_time(row, "seconds", -1), 60), spare=8),
    Column(heading="FPS at first", text=lambda row: figure(_over_time(row, "fps", 0)), spare=5),
    Column(heading="FPS at last", text=lambda row: figure(_over_time(row, "fps", -1)), spare=5),
    Column(heading="°C at last", text=lambda row: figure(_over_time(row, "celsius", -1)), spare=7),
    Column(heading="FPS over time", text=_sparkline, number=False, spare=6),
)
_EMULATED = (
    Column(heading="predicted FPS", text=lambda row: figure(row.predicted_fps)),
    Column(heading="predicted ms", text=lambda row: figure(row.predicted_ms), spare=6),
    Column(heading="interval ms", text=_predicted_ends, spare=5),
    Column(heading="MB moved", text=lambda row: figure(row.bytes_moved, 1e6), spare=9),
    Column(heading="M instructions", text=lambda row: figure(row.instructions, 1e6), spare=8),
    Column(heading="arena + weights MiB", text=_planned, spare=4),
)
_ENERGY = Column(heading="mJ", text=lambda row: figure(row.energy_mj), spare=5)
_GAINS = (
    Column(heading="over the step before", text=lambda row: _times(row.speedup_vs_previous), spare=4),
    Column(heading="over the first", text=lambda row: _times(row.speedup_vs_first), spare=4),
)
_MEMORY = (
    Column(heading="arena MiB", text=lambda row: figure(row.arena_bytes, MIB)),
    Column(heading="weights MiB", text=lambda row: figure(row.weight_bytes, MIB), spare=10),
)
_MEASURED_STEPS = (
    _FPS,
    Column(heading="p50 ms", text=lambda row: figure(row.p50_ms), spare=6),
    *_GAINS,
    Column(heading="M instructions", text=_instructions, spare=8),
    *_MEMORY,
)
_EMULATED_STEPS = (
    Column(heading="predicted FPS", text=lambda row: figure(row.predicted_fps)),
    Column(heading="predicted ms", text=lambda row: figure(row.predicted_ms), spare=6),
    *_GAINS,
    Column(heading="M instructions", text=_instructions, spare=8),
    Column(heading="MB moved", text=lambda row: figure(row.bytes_moved, 1e6), spare=9),
    *_MEMORY,
)
