"""The sentences below a table: the meaning of marks, disturbed measurements, reasons for missing figures."""

from __future__ import annotations

from collections.abc import Sequence

from harness.accuracy.overlap import overlap_sentence
from harness.report.comparison import BASELINE, TOO_FEW_ROUNDS
from harness.report.pareto import emulated_merit, not_ranked
from harness.report.result import Row

MARK = "★"
COUNTED_BY_EMULATOR = "†"
THROTTLED = "▲"
UNSTEADY = 1.5  # p90 over p50
OUTLYING = 0.05  # of the samples


def instruction_notes(rows: Sequence[Row]) -> list[str]:
    """How instructions were counted, if the processor itself did not count them."""
    isas = sorted({row.instructions_isa for row in rows if row.instructions_isa})
    notes = []
    if isas:
        notes.append(
            f"{COUNTED_BY_EMULATOR} Counted under QEMU with {' or '.join(isas)} vectors: programs cannot "
            "read the instruction counter of this machine. Times were measured without QEMU."
        )
    notes += dict.fromkeys(
        row.instructions_unavailable_reason for row in rows if row.instructions_unavailable_reason
    )
    return notes


def general_notes(rows: Sequence[Row]) -> list[str]:
    """Notes on ranking, emulation, measurement conditions and outputs."""
    notes = []
    if any(row.pareto_optimal for row in rows):
        emulated = rows[0].emulated
        speed, memory = (emulated_merit(rows), "memory") if emulated else ("FPS", "peak memory")
        notes.append(
            f"{MARK} Pareto-optimal: no other row of the same model is better in {speed}, accuracy or "
            f"{memory} without being worse in another. Known noise is taken into account."
        )
    if unknown := not_ranked(rows):
        what = sorted({name for names in unknown.values() for name in names})
        concerned = _listed([rows[index].name_on_target for index in unknown])
        notes.append(f"Not ranked ({' and '.join(what)} unknown): {concerned}.")
    notes += reliability_notes(rows)
    if any(row.digest_matches_host is False for row in rows):
        notes.append(
            "Outputs differ because the order of float sums depends on the instruction set; int8 outputs are "
            "always the same."
        )
    return notes


def reliability_notes(rows: Sequence[Row]) -> list[str]:
    """Notes on emulation, measurement conditions and pictures."""
    notes = []
    if rows[0].emulated:
        notes.append(
            "EMULATED: nothing here was measured on a board. Instructions and memory traffic are of one "
            "inference on one thread."
        )
        notes += _prediction_notes(rows)
    else:
        notes += _condition_notes(rows)
    return notes + _overlap_notes(rows)


def comparison_notes(rows: Sequence[Row]) -> list[str]:
    """The meaning of comparisons with fp32, and reasons for missing intervals."""
    notes = []
    others = [row for row in rows if row.policy != BASELINE and row.status == "done"]
    if any(row.speedup_vs_fp32 for row in others):
        sure = ", with its 95 % confidence interval" if _any_interval(others) else ""
        notes.append(f"speed-up vs fp32: speed as a multiple of the same cell in fp32{sure}.")
    if any(row.accuracy_change is not None for row in others):
        pictures = {row.scores.get("images") for row in others if row.accuracy_change_interval}
        which = f"another {pictures.pop()}" if len(pictures) == 1 else "other"
        sure = (
            f"; ± is the half-width of the 95 % interval for {which} pictures of the same kind"
            if any(row.accuracy_change_interval for row in others)
            else ""
        )
        notes.append(f"accuracy change: percentage points against fp32 on the same pictures{sure}.")
    alone = [row for row in others if row.speedup_vs_fp32 is None and row.accuracy_change is None]
    if alone and len(alone) == len(others) and not any(row.policy == BASELINE for row in rows):
        notes.append("No comparison with fp32: add the policy fp32 for speed-ups and changes in accuracy.")
    missing: dict[str, int] = {}
    for row in others:
        if row.accuracy_change is not None and row.accuracy_change_interval_unavailable_reason:
            reason = row.accuracy_change_interval_unavailable_reason
            missing[reason] = missing.get(reason, 0) + 1
    notes += [f"No ± in {count} of {len(rows)} cells: {reason}." for reason, count in missing.items()]
    if few := [row for row in rows if (row.p50_interval_unavailable_reason or "").startswith(TOO_FEW_ROUNDS)]:
        notes.append(
            f"Intervals: {len(few)} of {len(rows)} cells have {few[0].p50_interval_unavailable_reason} "
            "(rounds of the protocol)."
        )
    return notes


def _any_interval(rows: Sequence[Row]) -> bool:
    return any(row.speedup_interval for row in rows)


def _overlap_notes(rows: Sequence[Row]) -> list[str]:
    """Which accuracies were evaluated on pictures of the calibration, once per model."""
    found = {row.model: row.scores for row in rows if row.scores.get("calibration_overlap")}
    return [
        f"{model}: {overlap_sentence(scores['calibration_overlap'], scores['images'])}."
        for model, scores in found.items()
    ]


def percentile_notes(rows: Sequence[Row]) -> list[str]:
    """The reason for a missing p99."""
    few = sum(row.samples is not None and row.samples < 100 for row in rows)
    note = (
        f"p99: {few} of {len(rows)} cells have fewer than 100 samples, too few for a p99; increase runs or "
        "min_seconds of the protocol."
    )
    return [note] if few else []


def _condition_notes(rows: Sequence[Row]) -> list[str]:
    """Disturbed measurements, with hints."""
    notes = []
    if throttled := [row for row in rows if row.throttled]:
        reasons = dict.fromkeys(
            reason for row in throttled if row.conditions for reason in row.conditions.reasons
        )
        notes.append(f"{THROTTLED} Throttled, also when repeated: {'; '.join(reasons)}.")
    if drifting := sum(row.drift is not None for row in rows):
        notes.append(
            f"Drifting: in {drifting} of {len(rows)} cells the times rise or fall, within rounds or from one "
            "round to the next; increase warmup or cool the board better."
        )
    if unsteady := sum(_is_unsteady(row) for row in rows):
        notes.append(
            f"Unsteady: in {unsteady} of {len(rows)} cells p90 is more than {UNSTEADY:g} times p50; "
            "stop other programs there and measure again with --fresh."
        )
    if outlying := sum(_has_outliers(row) for row in rows):
        notes.append(
            f"Outliers: in {outlying} of {len(rows)} cells more than {100 * OUTLYING:g} % of the samples are "
            "far from the others (modified z-score above 3.5). The median is robust to outliers; FPS and "
            "p99 are not."
        )
    if metered := [row for row in rows if row.energy_mj is not None]:
        sources = dict.fromkeys(row.conditions.energy_source for row in metered if row.conditions)
        notes.append(
            "mJ: energy per inference at the mean power during the run, including idle power, measured by "
            f"{' and by '.join(filter(None, sources)) or 'its sensors'}."
        )
    notes += dict.fromkeys(warning for row in rows if row.conditions for warning in row.conditions.warnings)
    return notes


def _prediction_notes(rows: Sequence[Row]) -> list[str]:
    """The error of predicted figures, and reasons for missing ones."""
    notes = []
    predicted = [row for row in rows if row.prediction_error is not None]
    if predicted:
        divided = [row for row in predicted if row.prediction_divided]
        unchecked = [row for row in predicted if not (row.prediction_validated or row.prediction_divided)]
        found = "the error on published measurements of this kind of board"
        if len(unchecked) == len(predicted):
            found = "an assumption: UNVALIDATED, as there are no measurements of this kind of board"
        elif unchecked:
            threads = " and ".join(str(number) for number in dict.fromkeys(row.threads for row in unchecked))
            found += f"; UNVALIDATED with {threads} threads, for which there are no measurements"
        if divided:
            runtimes = " and ".join(dict.fromkeys(row.runtime for row in divided))
            assumed = "which are assumed to divide the work equally"
            found += f"; UNVALIDATED for several threads of {runtimes}, {assumed}"
        largest = max(row.prediction_error or 0.0 for row in predicted)
        notes.append(
            "PREDICTED: times of a real board, computed from the instructions and cache misses of the "
            "emulated run. 90 % of measured times are expected within the interval. Its size, at most "
            f"{100 * largest:.0f} % here, is {found}."
        )
    lenders = {row.target: row.prediction_coefficients_of for row in predicted}
    notes += [borrowed_note(lender, target) for target, lender in lenders.items() if lender]
    notes += dict.fromkeys(
        row.prediction_unavailable_reason for row in rows if row.prediction_unavailable_reason
    )
    return notes


def borrowed_note(lender: str, target: str) -> str:
    """A note on a prediction with the coefficients of another target."""
    return f"Predicted with the coefficients of {lender}, not validated for {target}."


def _is_unsteady(row: Row) -> bool:
    return row.p50_ms is not None and row.p90_ms is not None and row.p90_ms > UNSTEADY * row.p50_ms


def _has_outliers(row: Row) -> bool:
    return bool(row.outliers) and (row.outliers or 0) > OUTLYING * (row.samples or 1)


def cause_notes(rows: Sequence[Row]) -> list[str]:
    """The causes of failed and skipped cells, each cause once."""
    causes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.error:
            causes.setdefault((row.status, " ".join(row.error.split())), []).append(row.name_on_target)
    return [f"{status} {_listed(names)}: {error}" for (status, error), names in causes.items()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} cells"
