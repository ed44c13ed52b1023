"""The layers' times of a cell as node data for Google's Model Explorer, which colours a graph with them."""

from __future__ import annotations

import json
from pathlib import Path

from harness.report.formats.exported_onnx import nodes_of_layers, read_exported
from harness.report.formats.profiled import only_profile
from harness.report.layers import nanoseconds
from harness.report.result import Report

_COLOURS = ("#ffffff", "#d84315")  # from the fastest layer to the slowest


def node_data(report: Report, file: Path) -> bytes:
    """The milliseconds of each layer, by the name of its last node in a file of `harness export --format
    onnx`: Model Explorer's ONNX extension knows nodes by their names, and adds up the values of a group.

    Raises ConfigurationError if the report has not exactly one cell with a profile, or no node is one of its
    layers.
    """
    row = only_profile(report, "model-explorer")
    nodes = nodes_of_layers(read_exported(file, "model-explorer"), row, file)
    last = {layer.index: (node.name, layer) for node, layer in nodes}
    data = {
        "name": f"{'predicted ms' if row.emulated else 'ms'}: {row.name}",
        "results": {name: {"value": (nanoseconds(row, layer) or 0) / 1e6} for name, layer in last.values()},
        "gradient": [{"stop": float(stop), "bgColor": colour} for stop, colour in enumerate(_COLOURS)],
    }
    return json.dumps(data, indent=2, allow_nan=False).encode() + b"\n"
