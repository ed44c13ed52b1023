"""The layers' times of a cell as node data for Google's Model Explorer, which colours a graph with them."""

from __future__ import annotations

import json

from harness.report.formats.profiled import only_profile
from harness.report.layers import nanoseconds
from harness.report.result import Report

_COLOURS = ("#ffffff", "#d84315")  # from the fastest layer to the slowest


def node_data(report: Report) -> bytes:
    """The milliseconds of each layer, by the tensors' names in a file of `harness export --format onnx`.

    Raises ConfigurationError if the report has not exactly one cell with a profile.
    """
    row = only_profile(report, "model-explorer")
    data = {
        "name": f"{'predicted ms' if row.emulated else 'ms'}: {row.name}",
        "results": {
            name: {"value": (nanoseconds(row, layer) or 0) / 1e6}
            for layer in row.layers
            for name in (f"{layer.type}_{layer.index}", f"head_{layer.index}")  # of a tensor; of an output
        },
        "gradient": [{"stop": float(stop), "bgColor": colour} for stop, colour in enumerate(_COLOURS)],
    }
    return json.dumps(data, indent=2, allow_nan=False).encode() + b"\n"
