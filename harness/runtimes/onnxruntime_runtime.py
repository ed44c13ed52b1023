"""ONNX Runtime, on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config.file_kind import ONNX
from harness.runtimes.onnx_file import with_outputs
from harness.runtimes.python_runtime import PythonRuntime

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.base import ModelFile


class OnnxRuntime(PythonRuntime):
    """`onnxruntime` of PyPI."""

    name = "onnxruntime"
    session = "on_board.onnxruntime_session"
    formats = (ONNX,)
    export = "onnx"
    has_profile = True

    def with_outputs(self, model: ModelFile, folder: Path) -> ModelFile:
        return with_outputs(model, folder)
