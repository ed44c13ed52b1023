"""ncnn, on the CPU. It executes files that pnnx, its converter, makes of ONNX on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.config.file_kind import ONNX
from harness.runtimes.onnx_file import in_single, is_half, output_names, refuse_quantised, with_outputs
from harness.runtimes.python_runtime import PythonRuntime
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.base import ModelFile


class NcnnRuntime(PythonRuntime):
    """`ncnn` of PyPI, and the program in the wheel of `pnnx`, which needs no PyTorch to read ONNX."""

    name = "ncnn"
    session = "on_board.ncnn_session"
    formats = (ONNX,)
    export = "onnx"

    def with_outputs(self, model: ModelFile, folder: Path) -> ModelFile:
        """pnnx numbers the outputs."""
        found = with_outputs(model, folder)
        places = {name: place for place, name in enumerate(output_names(found.path))}
        return replace(found, outputs={layer: f"out{places[name]}" for layer, name in found.outputs.items()})

    def converted_name(self, path: Path) -> str:
        """The name tells the session to compute in fp16."""
        refuse_quantised(self.name, path)
        return f"{path.stem}.fp16.ncnn" if is_half(path) else f"{path.stem}.ncnn"

    def convert(self, path: Path, converted: Path) -> None:
        """pnnx makes layers that ncnn does not have of tensors in float16."""
        with temporary_folder("single") as folder:
            super().convert(in_single(path, folder), converted)
