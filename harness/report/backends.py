"""Which operators fell back to another backend of their runtime, such as Arm NN's from CpuAcc to CpuRef."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.config.runtimes import RUNTIMES
from harness.report.result import Fallback, Row
from harness.runtimes.base import LayerResult, find_runtime
from harness.runtimes.python_output import UNKNOWN

_MOST_NAMED = 12  # operators in a note; the table of layers has all


def fallback_of(runtime: str, layers: Callable[[], Sequence[LayerResult]]) -> Fallback | None:
    """What fell back in a cell; `layers` reads its profile."""
    if runtime not in RUNTIMES:  # results of a version that had it
        return None
    backend = find_runtime(runtime).fallback_backend
    if not backend:
        return None
    executed = [layer for layer in layers() if layer.algorithm != UNKNOWN]  # copies have no backend
    fallen = [f"{layer.index} {layer.type}" for layer in executed if layer.algorithm == backend]
    return Fallback(backend=backend, operators=fallen, of=len(executed)) if fallen else None


def backend_notes(rows: Sequence[Row]) -> list[str]:
    """The fall-backs of these rows, those of equal operators once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.fallback is not None:
            found.setdefault(_sentence(row.fallback), []).append(row.name_on_target)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in found.items()]


def _sentence(fallback: Fallback) -> str:
    operators, backend = fallback.operators, fallback.backend
    if len(operators) == fallback.of:
        return f"all {fallback.of} operators ran on {backend}, the only backend here that has them."
    named = ", ".join(operators[:_MOST_NAMED])
    more = len(operators) - _MOST_NAMED
    named += f" and {more} more" if more > 0 else ""
    return (
        f"{len(operators)} of {fallback.of} operators fell back to {backend}, because no faster backend has "
        f"them: {named}. `harness report --layers` has all."
    )
