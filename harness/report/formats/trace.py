"""The layers of cells as a trace in Chrome's Trace Event Format, which Perfetto (ui.perfetto.dev) opens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.report.formats.profiled import profiled
from harness.report.layers import nanoseconds
from harness.report.result import Report, Row
from harness.text import one_paragraph


def trace(report: Report) -> bytes:
    """One inference of each cell, a process for each. The profile has the time of a whole layer, so there is
    one track with the layers, one after the other, and one with the conversions of their inputs.

    Raises ConfigurationError if no cell has a profile.
    """
    events = [event for process, row in enumerate(profiled(report), 1) for event in _events(process, row)]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, allow_nan=False).encode() + b"\n"


def _events(process: int, row: Row) -> Iterator[dict[str, Any]]:
    place = {"pid": process, "tid": 1}
    kind = "predicted" if row.emulated else "measured"
    yield {"ph": "M", **place, "name": "process_name", "args": {"name": one_paragraph(row.name)}}
    yield {"ph": "M", **place, "name": "process_sort_index", "args": {"sort_index": process}}
    yield {"ph": "M", **place, "name": "thread_name", "args": {"name": f"layers ({kind})"}}
    conversions = {"pid": process, "tid": 2}
    yield {"ph": "M", **conversions, "name": "thread_name", "args": {"name": "conversions of inputs"}}
    begin = 0
    for layer in row.layers:
        duration = nanoseconds(row, layer) or 0
        yield {
            "ph": "X",
            **place,
            "name": one_paragraph(f"{layer.index} {layer.type} {layer.executed}"),
            "cat": one_paragraph(layer.executed),
            "ts": begin / 1e3,  # microseconds
            "dur": duration / 1e3,
            "args": {
                "precision": layer.precision,
                "instruction set": layer.isa,
                "algorithm": layer.algorithm,
                "bytes": layer.bytes,
            },
        }
        if layer.conversion_ns and not row.emulated:
            yield {
                "ph": "X",
                **conversions,
                "name": f"input of {layer.index}",
                "cat": "conversion",
                "ts": begin / 1e3,
                "dur": min(layer.conversion_ns, duration) / 1e3,
            }
        begin += duration
