"""ONNX Runtime, on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config.file_kind import ONNX
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

    def file_with_outputs(self, model: ModelFile, folder: Path) -> Path:
        """Declares tensors before the post-processing as outputs: ONNX Runtime computes no others."""
        import onnx

        graph = onnx.load(str(model.path), load_external_data=False).graph
        missing = set(model.outputs.values()) - {output.name for output in graph.output}
        if not missing:
            return model.path
        extended = onnx.load(str(model.path))
        extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(missing))
        file = folder / "model.onnx"
        file.write_bytes(extended.SerializeToString())
        return file
