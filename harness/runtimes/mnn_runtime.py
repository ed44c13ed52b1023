"""MNN, on the CPU. It executes files of its own, which its converter makes of ONNX on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config.file_kind import ONNX
from harness.runtimes.onnx_file import is_half, refuse_quantised, with_outputs
from harness.runtimes.python_runtime import PythonRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.runtimes.base import ModelFile


class MnnRuntime(PythonRuntime):
    """`MNN` of PyPI. Its command-line tools install packages and send telemetry: they are left out."""

    name = "mnn"
    session = "on_board.mnn_session"
    formats = (ONNX,)
    export = "onnx"
    int8_export = "mnn"
    has_profile = True

    def with_outputs(self, model: ModelFile, folder: Path) -> ModelFile:
        return model if _is_converted(model.path) else with_outputs(model, folder)

    def converted_name(self, path: Path) -> str:
        """The name tells the session to compute in fp16. Exports in int8 are converted."""
        if _is_converted(path):
            return ""
        refuse_quantised(self.name, path)
        return f"{path.stem}.fp16.mnn" if is_half(path) else f"{path.stem}.mnn"

    def quantise(self, path: Path, converted: Path, pictures: Path, in_float: Sequence[str]) -> None:
        """Makes a file in int8 of a model in float32, by the offline quantiser, which takes the ranges from
        `pictures` (.npy). `in_float` are the outputs of operators that stay in float."""
        more = ["--pictures", str(pictures), *(f"--in-float={name}" for name in in_float)]
        self.convert(path, converted, more)


def _is_converted(path: Path) -> bool:
    return path.suffix == ".mnn"
