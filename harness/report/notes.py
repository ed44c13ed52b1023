"""The sentences below a table: what its marks mean, what disturbed measurements, why figures are missing."""

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
    """How instructions were counted, where that is not by the processor itself."""
    isas = sorted({row.instructions_isa for row in rows if row.instructions_isa})
    notes = []
    if isas:
        notes.append(
            f"{COUNTED_BY_EMULATOR} Counted under QEMU, with {' or '.join(isas)} for vectors: no program "
            "may read this machine's counter of instructions. Times are the machine's own."
        )
    notes += dict.fromkeys(
        row.instructions_unavailable_reason for row in rows if row.instructions_unavailable_reason
    )
    return notes


def general_notes(rows: Sequence[Row]) -> list[str]:
    """Sentences that a reader of these rows needs."""
    notes = []
    emulated = rows[0].emulated
    if any(row.pareto_optimal for row in rows):
        speed, memory = (emulated_merit(rows), "memory") if emulated else ("FPS", "peak memory")
        notes.append(
            f"{MARK} Pareto-optimal: no other row of the same model is better in one of {speed}, accuracy "
            f"and {memory} and worse in none. Differences within the noise do not count, where it is known."
        )
    if unknown := not_ranked(rows):
        what = sorted({f"{name} is" for names in unknown.values() for name in names})
        concerned = _listed([rows[index].name_on_target for index in unknown])
        notes.append(f"Not ranked, as {' and '.join(what)} not known: {concerned}.")
    if emulated:
        notes.append(
            "EMULATED: no figure here was measured on a board. Instructions and bytes moved to and from "
            "memory are of one inference on one thread."
        )
        notes += _prediction_notes(rows)
    else:
        notes += _condition_notes(rows)
    notes += _overlap_notes(rows)
    if any(row.digest_matches_host is False for row in rows):
        notes.append(
            "Outputs differ in float sums, whose order depends on the instruction set; int8 never does."
        )
    return notes


def comparison_notes(rows: Sequence[Row]) -> list[str]:
    """What speeds and accuracies are compared with, and why nothing tells how sure that is."""
    notes = []
    others = [row for row in rows if row.policy != BASELINE and row.status == "done"]
    if any(row.speedup_vs_fp32 for row in others):
        sure = "; the interval holds the true ratio in 95 % of cases" if _any_interval(others) else ""
        notes.append(f"speed-up vs fp32: how many times as fast as the same cell in fp32{sure}.")
    if any(row.accuracy_change is not None for row in others):
        pictures = {row.scores.get("images") for row in others if row.accuracy_change_interval}
        count = f"{pictures.pop()} " if len(pictures) == 1 else ""
        sure = (
            f"; other {count}pictures of the kind would change it by up to what follows ±, in 95 % of cases"
            if any(row.accuracy_change_interval for row in others)
            else ""
        )
        notes.append(f"accuracy change: percentage points against fp32 on the same pictures{sure}.")
    alone = [row for row in others if row.speedup_vs_fp32 is None and row.accuracy_change is None]
    if alone and len(alone) == len(others) and not any(row.policy == BASELINE for row in rows):
        notes.append("Nothing is compared with fp32: add that policy for speed-ups and changes in accuracy.")
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
    """On which accuracies the pictures of calibration weigh, once for each model."""
    found = {row.model: row.scores for row in rows if row.scores.get("calibration_overlap")}
    return [
        f"{model}: {overlap_sentence(scores['calibration_overlap'], scores['images'])}."
        for model, scores in found.items()
    ]


def percentile_notes(rows: Sequence[Row]) -> list[str]:
    """Why there is no p99."""
    few = sum(row.samples is not None and row.samples < 100 for row in rows)
    note = (
        f"p99: {few} of {len(rows)} cells have fewer than 100 samples, of which it would be about the "
        "longest; ask for more (runs or min_seconds of the protocol)."
    )
    return [note] if few else []


def _condition_notes(rows: Sequence[Row]) -> list[str]:
    """What disturbed measurements, with the hint."""
    notes = []
    if throttled := [row for row in rows if row.throttled]:
        reasons = dict.fromkeys(
            reason for row in throttled if row.conditions for reason in row.conditions.reasons
        )
        notes.append(f"{THROTTLED} Throttled, also when measured again: {'; '.join(reasons)}.")
    if drifting := sum(row.drift is not None for row in rows):
        notes.append(
            f"Drifting: in {drifting} of {len(rows)} cells times rise or fall within rounds, or from one to "
            "the next; let the board warm up (warmup) or cool it better."
        )
    if unsteady := sum(_is_unsteady(row) for row in rows):
        notes.append(
            f"Unsteady: in {unsteady} of {len(rows)} cells p90 is more than {UNSTEADY:g} times p50; "
            "end what else runs there and measure again with --fresh."
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
            "mJ: of one inference, at the mean power while the program ran, that of an idle board included, "
            f"measured by {' and by '.join(filter(None, sources)) or 'its sensors'}."
        )
    notes += dict.fromkeys(warning for row in rows if row.conditions for warning in row.conditions.warnings)
    return notes


def _prediction_notes(rows: Sequence[Row]) -> list[str]:
    """How far predicted figures are to be trusted, and why some are missing."""
    notes = []
    predicted = [row for row in rows if row.prediction_error is not None]
    if predicted:
        unchecked = [row.threads for row in predicted if not row.prediction_validated]
        found = "the error that was found on published measurements of this kind of board"
        if len(unchecked) == len(predicted):
            found = "an assumption: UNVALIDATED, since nothing measured on this kind of board was compared"
        elif unchecked:
            threads = " and ".join(str(number) for number in dict.fromkeys(unchecked))
            found += f"; UNVALIDATED with {threads} threads, which nothing published was compared with"
        largest = max(row.prediction_error or 0.0 for row in predicted)
        notes.append(
            "PREDICTED: what a real board would take, from the instructions and the cache misses of the "
            "emulated run. Nine of ten measured times are expected within the interval, whose size, at most "
            f"{100 * largest:.0f} % here, is {found}."
        )
    lenders = {row.target: row.prediction_coefficients_of for row in predicted}
    notes += [borrowed_note(lender, target) for target, lender in lenders.items() if lender]
    notes += dict.fromkeys(
        row.prediction_unavailable_reason for row in rows if row.prediction_unavailable_reason
    )
    return notes


def borrowed_note(lender: str, target: str) -> str:
    """What a prediction with another target's coefficients is worth."""
    return f"Predicted with the coefficients of {lender}, not validated for {target}."


def _is_unsteady(row: Row) -> bool:
    return row.p50_ms is not None and row.p90_ms is not None and row.p90_ms > UNSTEADY * row.p50_ms


def _has_outliers(row: Row) -> bool:
    return bool(row.outliers) and (row.outliers or 0) > OUTLYING * (row.samples or 1)


def cause_notes(rows: Sequence[Row]) -> list[str]:
    """Why cells failed or were skipped, each cause once."""
    causes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.error:
            causes.setdefault((row.status, " ".join(row.error.split())), []).append(row.name_on_target)
    return [f"{status} {_listed(names)}: {error}" for (status, error), names in causes.items()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} cells"
