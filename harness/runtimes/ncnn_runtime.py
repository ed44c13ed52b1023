"""ncnn, on the CPU. It executes files that pnnx, its converter, makes of ONNX on this machine.

pnnx reads no int8: it gets the model in float, and int8 layers are written behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from harness.config.file_kind import ONNX
from harness.file_digest import file_digest
from harness.runtimes import ncnn_int8, ncnn_network, qdq_onnx
from harness.runtimes.on_board.ncnn_file import packed, read_graph
from harness.runtimes.onnx_file import in_single, is_half, output_names, refuse_quantised, with_outputs
from harness.runtimes.python_runtime import PythonRuntime
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.runtimes.base import ModelFile


class NcnnRuntime(PythonRuntime):
    """`ncnn` of PyPI, and the program in the wheel of `pnnx`, which needs no PyTorch to read ONNX."""

    name = "ncnn"
    session = "on_board.ncnn_session"
    formats = (ONNX,)
    export = "onnx"
    # OpenMP divides loops into equal parts, and waits for their end in the kernel.
    passive_threads = MappingProxyType({"OMP_WAIT_POLICY": "passive"})

    @property
    def fingerprint(self) -> str:
        """With the modules that write int8, which decide what the files compute."""
        modules = (ncnn_int8, ncnn_network, qdq_onnx)
        parts = [super().fingerprint, *(file_digest(Path(str(module.__file__))) for module in modules)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def with_outputs(self, model: ModelFile, folder: Path) -> ModelFile:
        """pnnx numbers the outputs."""
        found = with_outputs(model, folder)
        places = {name: place for place, name in enumerate(output_names(found.path))}
        return replace(found, outputs={layer: f"out{places[name]}" for layer, name in found.outputs.items()})

    def converted_name(self, path: Path) -> str:
        """The name tells the session to compute in fp16 what is not int8."""
        refuse_quantised(self.name, path, but=qdq_onnx.CONVERSIONS)
        return f"{path.stem}.fp16.ncnn" if is_half(path) else f"{path.stem}.ncnn"

    def float_operators(self, path: Path) -> Mapping[str, int] | None:
        return ncnn_int8.left_in_float(read_graph(str(path))[0])

    def convert(self, path: Path, converted: Path, more: Sequence[str] = ()) -> None:
        """pnnx makes layers that ncnn does not have of tensors in float16."""
        with temporary_folder("single") as folder:
            plain, layers = qdq_onnx.in_float(path, folder)
            single = in_single(plain, folder)
            if not layers:
                super().convert(single, converted, more)
                return
            whole = folder / f"{path.stem}.ncnn"
            super().convert(single, whole, more)
            graph, shapes, end = read_graph(str(whole))
            half = is_half(path)
            graph, content = ncnn_int8.in_int8(graph, whole.read_bytes()[:end], layers, half=half)
            converted.write_bytes(packed(content, graph, shapes))
