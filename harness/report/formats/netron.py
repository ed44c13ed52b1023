"""An exported ONNX file whose nodes have their layers' precision and time, which Netron shows."""

from __future__ import annotations

from pathlib import Path

from harness.report.formats.exported_onnx import nodes_of_layers, read_exported
from harness.report.formats.profiled import only_profile
from harness.report.layers import nanoseconds
from harness.report.result import Report

_NODE_METADATA = 10  # the first version of the format in which nodes have metadata


def annotated(report: Report, file: Path) -> bytes:
    """The model with the layers of the report's cell in the metadata and the description of its nodes.

    Raises ConfigurationError if the report has not exactly one cell with a profile, or no node is one of its
    layers.
    """
    row = only_profile(report, "netron")
    model = read_exported(file, "netron")
    for node, layer in nodes_of_layers(model, row, file):
        note = {
            "precision": layer.executed,
            "predicted ms" if row.emulated else "ms": f"{(nanoseconds(row, layer) or 0) / 1e6:.6g}",
            "algorithm": layer.algorithm,
            "instruction set": layer.isa,
        }
        node.doc_string = f"{row.name}: " + ", ".join(f"{name} {value}" for name, value in note.items())
        for name, value in note.items():
            node.metadata_props.add(key=f"harness {name}", value=value)
    model.ir_version = max(model.ir_version, _NODE_METADATA)
    return bytes(model.SerializeToString())
