"""LiteRT, TensorFlow Lite's runtime, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.config.file_kind import TFLITE
from harness.runtimes.python_runtime import PythonRuntime


class LiteRtRuntime(PythonRuntime):
    """`ai-edge-litert` of PyPI."""

    name = "litert"
    session = "on_board.litert_session"
    formats = (TFLITE,)
    export = "tflite"
    options = ("cores", "xnnpack")

    def float_operators(self, path: Path) -> Mapping[str, int] | None:
        from harness.exporting.float_operators import left_in_float
        from harness.importing.tflite_file import read_flat_model

        return left_in_float(read_flat_model(path))
