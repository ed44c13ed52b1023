"""The conditions of measurement that must be alike for a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import ConfigurationError
from harness.report.compare.side import MeasuredCell

Pair = tuple[MeasuredCell, MeasuredCell]
_HOST = "host"  # the board that is the harness's own machine
_UNKNOWN = (None, "", "unknown")


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """A condition that differs between A and B, and in how many cells."""

    condition: str
    a: str
    b: str
    cells: int


def unlike_conditions(pairs: Sequence[Pair]) -> list[Unlike]:
    """The conditions that differ. What one side does not know is not compared."""
    return _different(pairs, _measured, _emulated)


def noted_conditions(pairs: Sequence[Pair]) -> list[Unlike]:
    """Differences that may change times but do not make them incomparable."""
    return _different(pairs, _around, _around_emulated)


def refuse(unlike: Sequence[Unlike]) -> None:
    """Raises ConfigurationError if there are unlike conditions."""
    if unlike:
        raise ConfigurationError(
            "A and B were measured under unlike conditions: " + "; ".join(map(described, unlike)),
            hint="Measure both under the same conditions, or compare them nevertheless with --allow-unlike.",
        )


def described(unlike: Unlike) -> str:
    """A difference for messages."""
    cells = "1 cell" if unlike.cells == 1 else f"{unlike.cells} cells"
    return f"{unlike.condition} {unlike.a} in A, {unlike.b} in B ({cells})"


def _measured(cell: MeasuredCell) -> dict[str, str | None]:
    row = cell.row
    governors = row.conditions.governors if row.conditions else ()
    return {
        "board": row.board,
        "processor": cell.environment.get("processor") if row.board == _HOST else None,
        "governor": ", ".join(governors),
        "run": "sustained" if row.time_series else "of rounds",
        "warm-up": None if row.warmup is None else str(row.warmup),
    }


def _emulated(cell: MeasuredCell) -> dict[str, str | None]:
    row = cell.row
    lender = row.prediction_coefficients_of or "the target's own"
    return {
        "LLVM": cell.environment.get("llvm"),
        "coefficients": lender if row.predicted_ms is not None else None,
    }


def _around(cell: MeasuredCell) -> dict[str, str | None]:
    names = ("kernel", "virtual") if cell.row.board == _HOST else ()
    return {name: cell.environment.get(name) for name in names} | _around_emulated(cell)


def _around_emulated(cell: MeasuredCell) -> dict[str, str | None]:
    return {"harness": cell.environment.get("harness")}


Facts = Callable[[MeasuredCell], dict[str, str | None]]


def _different(pairs: Sequence[Pair], measured: Facts, emulated: Facts) -> list[Unlike]:
    found: dict[tuple[str, str, str], int] = {}
    for pair in pairs:
        if any(cell.row.fps is None for cell in pair):  # it has no result
            continue
        facts = emulated if pair[0].row.emulated else measured
        a, b = facts(pair[0]), facts(pair[1])
        for name in a.keys() & b.keys():
            one, other = a[name], b[name]
            if one in _UNKNOWN or other in _UNKNOWN or one == other:
                continue
            place = (name, str(one), str(other))
            found[place] = found.get(place, 0) + 1
    return [
        Unlike(condition=name, a=one, b=other, cells=count)
        for (name, one, other), count in sorted(found.items())
    ]
