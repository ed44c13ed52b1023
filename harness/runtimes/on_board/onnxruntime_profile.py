"""The operators in a profile of ONNX Runtime."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def operators(events: Sequence[dict[str, Any]]) -> list[dict[str, object]]:
    """A row for each operator in a profile; its first run is a warm-up."""
    times: dict[str, list[int]] = {}
    rows: dict[str, dict[str, object]] = {}
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") != "Node" or not event.get("name", "").endswith("_kernel_time"):
            continue
        index = arguments["node_index"]
        times.setdefault(index, []).append(event["dur"])
        types = [name for each in arguments.get("input_type_shape", ()) for name in each]
        rows.setdefault(
            index,
            {
                "type": arguments["op_name"],
                "computed": types[0] if types else "",
                "provider": arguments.get("provider", ""),
            },
        )
    return [
        dict(row, ns=int(1000 * statistics.median(times[index][1:] or times[index])))
        for index, row in rows.items()
    ]
