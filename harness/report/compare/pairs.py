"""Pairs each cell of one run with the cell of the other that has the same names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.errors import ConfigurationError
from harness.report.compare.side import MeasuredCell, Side
from harness.text import one_paragraph

IGNORABLE = ("model", "policy", "target", "runtime", "toolchain", "threads", "options", "step")
_IDENTITY = (*IGNORABLE, "emulated")  # figures of emulated and measured cells have nothing in common


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The cells of two runs, in the order of A and of B."""

    both: Sequence[tuple[MeasuredCell, MeasuredCell]]
    only_a: Sequence[MeasuredCell]
    only_b: Sequence[MeasuredCell]


def paired(a: Side, b: Side, ignored: Collection[str] = ()) -> Pairs:
    """Pairs cells that have everything in common but the ignored parts of their identity.

    Raises ConfigurationError if there is no pair, or if the ignored parts make it ambiguous.
    """
    identity = [name for name in _IDENTITY if name not in ignored]
    cells_a, cells_b = _by_identity("A", a, identity), _by_identity("B", b, identity)
    both = [(cells_a[key], cells_b[key]) for key in cells_a if key in cells_b]
    if not both:
        raise _nothing_in_common(a, b, identity)
    return Pairs(
        both=both,
        only_a=[cell for key, cell in cells_a.items() if key not in cells_b],
        only_b=[cell for key, cell in cells_b.items() if key not in cells_a],
    )


def _by_identity(label: str, side: Side, identity: Sequence[str]) -> dict[tuple[object, ...], MeasuredCell]:
    found: dict[tuple[object, ...], MeasuredCell] = {}
    for cell in side.cells:
        key = tuple(getattr(cell.row, name) for name in identity)
        if key in found:
            raise ConfigurationError(
                f"two cells of {label} cannot be told apart: {found[key].row.name}, and {cell.row.name}",
                hint="Ignore less with --ignore.",
            )
        found[key] = cell
    return found


def _nothing_in_common(a: Side, b: Side, identity: Sequence[str]) -> ConfigurationError:
    for name in identity:
        of_a, of_b = ({getattr(cell.row, name) for cell in side.cells} for side in (a, b))
        if of_a.isdisjoint(of_b):
            if name == "emulated":
                what, hint = "one was measured, the other emulated", "Compare runs of the same kind."
            else:
                what = f"{name} {_listed(of_a)} in A, {_listed(of_b)} in B"
                hint = f"If this is the difference to be compared, add --ignore {name}."
            return ConfigurationError(f"A and B have no cell in common: {what}", hint=hint)
    return ConfigurationError(
        "A and B have no cell in common",
        hint="`harness report` lists the cells of each; --ignore pairs cells that differ in a name.",
    )


def _listed(values: Collection[object]) -> str:
    texts = sorted(one_paragraph(str(value)) or "(default)" for value in values)
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
