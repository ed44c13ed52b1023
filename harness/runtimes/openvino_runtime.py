"""OpenVINO, on the CPU."""

from __future__ import annotations

from harness.config.file_kind import ONNX, TFLITE
from harness.runtimes.python_runtime import PythonRuntime


class OpenVinoRuntime(PythonRuntime):
    """`openvino` of PyPI, without `openvino-telemetry`."""

    name = "openvino"
    session = "on_board.openvino_session"
    formats = (ONNX, TFLITE)
    export = "onnx"
    has_profile = True
