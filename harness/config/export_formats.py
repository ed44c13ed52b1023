"""The formats that `harness export` writes. A new format needs a module and a line here."""

from __future__ import annotations

FORMATS = {  # word of --format: module, imported when it is used
    "onnx": "harness.exporting.onnx_files",
}
