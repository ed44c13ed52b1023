"""ONNX Runtime, on the CPU."""

from __future__ import annotations

from harness.config.file_kind import ONNX
from harness.runtimes.python_runtime import PythonRuntime


class OnnxRuntime(PythonRuntime):
    """`onnxruntime` of PyPI."""

    name = "onnxruntime"
    session = "on_board.onnxruntime_session"
    formats = (ONNX,)
    has_profile = True
