"""The operators in a profile of Arm NN, with the backend that executed each."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from typing import Any

_BACKENDS = {"Neon": "CpuAcc", "Ref": "CpuRef"}  # by how the names of their workloads begin
_NANOSECONDS = {"us": 1e3, "ms": 1e6, "ns": 1.0}
_WORKLOAD = re.compile(r"(?P<backend>Neon|Ref)?(?P<type>\w+?)(Float|Float32|Uint8)?(Workload)?_Execute_#\d+")


def operators(text: str) -> list[dict[str, object]]:
    """A row for each operator in the order of their execution. Copies between backends have no backend."""
    return [
        {
            "type": found["type"],
            "computed": "",  # it does not tell
            "provider": _BACKENDS.get(found["backend"] or "", ""),
            "ns": int(statistics.median(_times(event))),
        }
        for name, event in _events(json.loads(text))
        if (found := _WORKLOAD.fullmatch(name))
    ]


def _events(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield name, value
            yield from _events(value)


def _times(event: dict[str, Any]) -> list[float]:
    (clock,) = (value for key, value in event.items() if key.startswith("Wall clock time_#"))
    return [float(each) * _NANOSECONDS[clock["unit"]] for each in clock["raw"]]
