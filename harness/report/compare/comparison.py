"""Two runs, cell by cell, and the verdict in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.report.compare.conditions import Unlike, noted_conditions, refuse, unlike_conditions
from harness.report.compare.difference import LABELS, Difference, differences
from harness.report.compare.pairs import paired
from harness.report.compare.side import MeasuredCell, Side


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The differences between two runs."""

    a: Side
    b: Side
    limit: float | None  # growth that makes a slower cell a regression, as a fraction
    cells: Sequence[Difference]
    only_a: Sequence[MeasuredCell]
    only_b: Sequence[MeasuredCell]
    unlike: Sequence[Unlike]  # differences in the conditions that were allowed
    noted: Sequence[Unlike]  # differences around the measurement that are no reason to refuse it

    @property
    def regressions(self) -> list[Difference]:
        return [cell for cell in self.cells if cell.regression]

    @property
    def counts(self) -> Counter[str]:
        """The number of cells with each outcome."""
        return Counter(cell.outcome for cell in self.cells)

    @property
    def nothing_tested(self) -> bool:
        """Whether no cell has results that could be compared."""
        return all(cell.outcome in ("not tested", "no result") for cell in self.cells)


def compare(
    a: Side,
    b: Side,
    *,
    limit: float | None = None,
    ignored: Collection[str] = (),
    allow_unlike: bool = False,
) -> Comparison:
    """Compares two runs. Raises ConfigurationError if they have no cell in common, or if their conditions
    differ and `allow_unlike` is not set."""
    pairs = paired(a, b, ignored)
    unlike = unlike_conditions(pairs.both)
    if not allow_unlike:
        refuse(unlike)
    return Comparison(
        a=a,
        b=b,
        limit=limit,
        cells=differences(pairs.both, a, b, limit),
        only_a=pairs.only_a,
        only_b=pairs.only_b,
        unlike=unlike,
        noted=noted_conditions(pairs.both),
    )


def verdict(comparison: Comparison) -> str:
    """One or two sentences: whether there is a regression, and how many cells changed."""
    return " ".join(filter(None, (_judgement(comparison), _summary(comparison))))


def percent(ratio: float) -> str:
    """A ratio as a change in percent, such as +5.3 %. A small change is not rounded to nothing."""
    change = 100 * (ratio - 1)
    if not change:
        return "0 %"
    return f"{change:+,.1f} %" if abs(change) >= 0.095 else f"{change:+.1g} %"


def _judgement(comparison: Comparison) -> str:
    if comparison.limit is None:
        return ""
    than = f"by more than {100 * comparison.limit:g} %"
    found = comparison.regressions
    if found:
        what = (
            "slower" if all(cell.outcome == "slower" for cell in found) else "slower or has more instructions"
        )
        return f"Regression: {_cells(len(found))} {what} {than}."
    if comparison.nothing_tested:
        return "No verdict: no cell could be tested."
    return f"No regression: no cell is slower {than}."


def _summary(comparison: Comparison) -> str:
    counts = comparison.counts
    parts = []
    for outcome, largest in (("slower", max), ("faster", min)):
        cells = [cell for cell in comparison.cells if cell.outcome == outcome]
        if cells:
            most = largest(cells, key=lambda cell: cell.ratio or 1)
            among = "the most, " if len(cells) > 1 else ""
            parts.append(f"{len(cells)} {outcome} ({among}{most.b.name}: {percent(most.ratio or 1)})")
    names = {
        "no difference": "without a significant difference",
        "same result": "not measured anew",
        "not tested": "not tested",
        "no result": "without a result",
    }
    parts += [f"{counts[outcome]} {name}" for outcome, name in names.items() if counts[outcome]]
    found = f"Of {len(comparison.cells)} cell{'s'[: len(comparison.cells) > 1]}: {', '.join(parts)}."
    if changed := [cell for cell in comparison.cells if cell.changes]:
        figures = dict.fromkeys(LABELS[change.name] for cell in changed for change in cell.changes)
        differ = "1 also differs" if len(changed) == 1 else f"{len(changed)} also differ"
        found += f" {differ} in {', '.join(figures)}."
    alone = [f"{len(cells)} in {label}" for label, cells in _alone(comparison) if cells]
    return found + (f" Only on one side: {', '.join(alone)}." if alone else "")


def _alone(comparison: Comparison) -> list[tuple[str, Sequence[MeasuredCell]]]:
    return [("A", comparison.only_a), ("B", comparison.only_b)]


def _cells(count: int) -> str:
    return "1 cell is" if count == 1 else f"{count} cells are"
