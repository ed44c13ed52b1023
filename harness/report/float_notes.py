"""Which operators of a model's file a quantisation left in float."""

from __future__ import annotations

from collections.abc import Sequence

from harness.exporting.float_operators import listed
from harness.report.result import Row


def float_notes(rows: Sequence[Row]) -> list[str]:
    """Of the files with integers: the operators that compute in float, equal ones once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.float_operators:
            found.setdefault(listed(row.float_operators), []).append(row.name_on_target)
    return [f"{', '.join(names)}: computed in float: {operators}." for operators, names in found.items()]
