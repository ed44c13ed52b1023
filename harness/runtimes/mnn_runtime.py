"""MNN, on the CPU. It executes files of its own, which its converter makes of ONNX on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config.file_kind import ONNX
from harness.runtimes.onnx_file import is_half, refuse_quantised, with_outputs
from harness.runtimes.python_runtime import PythonRuntime

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.base import ModelFile


class MnnRuntime(PythonRuntime):
    """`MNN` of PyPI. Its command-line tools install packages and send telemetry: they are left out."""

    name = "mnn"
    session = "on_board.mnn_session"
    formats = (ONNX,)
    export = "onnx"
    has_profile = True

    def with_outputs(self, model: ModelFile, folder: Path) -> ModelFile:
        return with_outputs(model, folder)

    def converted_name(self, path: Path) -> str:
        """The name tells the session to compute in fp16."""
        refuse_quantised(self.name, path)
        return f"{path.stem}.fp16.mnn" if is_half(path) else f"{path.stem}.mnn"
