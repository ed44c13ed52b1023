"""LiteRT, TensorFlow Lite's runtime, on the CPU."""

from __future__ import annotations

from harness.config.file_kind import TFLITE
from harness.runtimes.python_runtime import PythonRuntime


class LiteRtRuntime(PythonRuntime):
    """`ai-edge-litert` of PyPI."""

    name = "litert"
    session = "on_board.litert_session"
    formats = (TFLITE,)
    export = "tflite"
    options = ("cores", "xnnpack")
