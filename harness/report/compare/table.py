"""The tables of a comparison: one for each target, measured ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.report import table
from harness.report.compare.comparison import Comparison, percent
from harness.report.compare.difference import LABELS, Change, Difference
from harness.report.compare.pairs import IGNORABLE
from harness.report.notes import THROTTLED
from harness.report.table import NOTHING, figure

Column = table.Column[Difference]
Table = table.Table[Difference]

_REGRESSION = "✗"
_STYLES = {"slower": "red", "faster": "green", "not tested": "dim", "no result": "dim", "same result": "dim"}
_MOST_NAMED = 5  # cells in a note


def tables(comparison: Comparison) -> list[Table]:
    """A table for every target."""
    groups: dict[tuple[bool, str], list[Difference]] = {}
    for cell in comparison.cells:
        groups.setdefault((cell.b.emulated, cell.b.target), []).append(cell)
    return [_table(*group, cells) for group, cells in sorted(groups.items(), key=lambda item: item[0][0])]


def told(change: Change) -> str:
    """A change for a note."""
    name, a, b = LABELS[change.name], change.a, change.b
    if change.name == "digest":
        return "other outputs"
    if isinstance(a, str) or isinstance(b, str):
        return f"{name} {a} → {b}"
    if change.name == "accuracy":
        return f"accuracy {100 * (b - a):+.2f} points"
    return f"{name} {a:,.0f} → {b:,.0f}" + (f" ({percent(b / a)})" if a else "")


def _table(emulated: bool, target: str, cells: Sequence[Difference]) -> Table:
    ignored = {_ignored(cell) for cell in cells}
    common = ignored.pop() if len(ignored) == 1 else ""
    cell = Column(heading="cell", text=lambda cell: _name(cell, brief=bool(common)), number=False)
    changed = [_CHANGES] if any(cell.changes for cell in cells) else []
    return Table(
        title=f"{target} (emulated)" if emulated else target,
        columns=[cell, *(_EMULATED if emulated else _MEASURED), _OUTCOME, *changed],
        rows=cells,
        style=lambda cell: "bold red" if cell.regression else _STYLES.get(cell.outcome),
        common=common,
        notes=list(_notes(emulated, cells)),
    )


def _notes(emulated: bool, cells: Sequence[Difference]) -> Iterator[str]:
    if emulated:
        yield "Predicted times of a board, and instructions: they are computed, so any difference counts."
    elif any(cell.p_value is not None for cell in cells):
        yield "change: of the median time. Its 95 % confidence interval is from the rounds."
        yield "slower, faster: significant at 5 % for all tested cells of the comparison together (Holm)."
    if any(cell.regression for cell in cells):
        yield f"{_REGRESSION} Regression: slower by more than the limit of --fail-on."
    if any(cell.throttled for cell in cells):
        yield f"{THROTTLED} The board was throttled in A or B: measure again when it is cool."
    if same := sum(cell.outcome == "same result" for cell in cells):
        yield f"same result: both runs have the same result of {same} cells; --fresh measures again."
    changed = [cell for cell in cells if cell.changes]
    for cell in changed[:_MOST_NAMED]:
        yield f"{cell.b.name_on_target}: {', '.join(map(told, cell.changes))}."
    if len(changed) > _MOST_NAMED:
        yield f"{len(changed) - _MOST_NAMED} more cells also differ in other figures: --json lists all."
    reasons: dict[str, list[Difference]] = {}
    for cell in cells:
        if cell.reason:
            reasons.setdefault(cell.reason, []).append(cell)
    for reason, concerned in reasons.items():
        names = concerned[0].b.name_on_target if len(concerned) == 1 else f"{len(concerned)} cells"
        yield f"{concerned[0].outcome}: {names}: {reason}."


def _ignored(cell: Difference) -> str:
    """The parts of the identity that differ."""
    parts = [(name, getattr(cell.a, name), getattr(cell.b, name)) for name in IGNORABLE]
    return "; ".join(
        f"{name} {a or '(default)'} in A, {b or '(default)'} in B" for name, a, b in parts if a != b
    )


def _name(cell: Difference, *, brief: bool) -> str:
    """The names in A and in B; only that in A where a line above the table has the difference."""
    mark = f" {THROTTLED}" if cell.throttled else ""
    a, b = cell.a.name_on_target, cell.b.name_on_target
    return (a if brief or a == b else f"{a} → {b}") + mark


def _milliseconds(value: float | None) -> str:
    """Three significant digits, also below 1 ms."""
    return figure(value) if value is None or value >= 1 else f"{value:.3g}"


def _predicted(value: float | None, cell: Difference) -> str:
    return _milliseconds(value) if cell.figure == "predicted_ms" else NOTHING


def _instructions(cell: Difference) -> str:
    return NOTHING if cell.instruction_ratio is None else percent(cell.instruction_ratio)


def _change(cell: Difference) -> str:
    return NOTHING if cell.ratio is None or cell.outcome == "same result" else percent(cell.ratio)


def _ends(cell: Difference) -> str:
    if cell.low is None or cell.high is None or cell.p_value is None:
        return NOTHING
    low, high = (percent(end).removesuffix(" %") for end in (cell.low, cell.high))
    return f"{low} to {high}"


def _outcome(cell: Difference) -> str:
    return f"{_REGRESSION} {cell.outcome}" if cell.regression else cell.outcome


def _p_value(cell: Difference) -> str:
    if cell.p_value_adjusted is None:
        return NOTHING
    return "< 0.001" if cell.p_value_adjusted < 0.001 else f"{cell.p_value_adjusted:.3f}"


_OUTCOME = Column(heading="result", text=_outcome, number=False)
_CHANGES = Column(
    heading="also different",
    text=lambda cell: ", ".join(LABELS[change.name] for change in cell.changes),
    number=False,
    spare=3,
)
_CHANGE = Column(heading="change", text=_change)
_MEASURED = (
    Column(heading="A ms", text=lambda cell: _milliseconds(cell.value_a), spare=2),
    Column(heading="B ms", text=lambda cell: _milliseconds(cell.value_b), spare=1),
    _CHANGE,
    Column(heading="95 % CI", text=_ends, spare=1),
    Column(heading="p (Holm)", text=_p_value, detail=True),
    Column(heading="effect size", text=lambda cell: figure(cell.effect_size), detail=True),
)
_EMULATED = (
    Column(heading="A predicted ms", text=lambda cell: _predicted(cell.value_a, cell), spare=2),
    Column(heading="B predicted ms", text=lambda cell: _predicted(cell.value_b, cell), spare=1),
    _CHANGE,
    Column(heading="instructions", text=_instructions, spare=3),
)
