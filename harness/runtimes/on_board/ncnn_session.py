"""ncnn, on the CPU. A model is one file, which `convert` makes of the two that pnnx writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import ncnn
import numpy as np

from .ncnn_file import packed, read_graph
from .tensors import Tensor

HALF = ".fp16.ncnn"  # how the names of models end that compute in fp16 where the processor can
_INPUT = re.compile(r"^pnnx\.Input +\S+ +0 1 (\S+) #\1=\(([0-9?,]+)\)(\w+)$", re.MULTILINE)


def version() -> str:
    return str(ncnn.__version__)


def convert(model: str, converted: str) -> None:
    """By pnnx, whose Python module imports PyTorch: its program does not need it."""
    spec = find_spec("pnnx")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).with_name("pnnx")
    if not os.access(str(program), os.X_OK):  # unpacked without modes
        program.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=str(Path(converted).parent)) as name:
        folder = Path(name)
        shutil.copyfile(model, str(folder / "model.onnx"))
        # fp16 concerns the file alone.
        half = int(converted.endswith(HALF))
        subprocess.run([str(program), "model.onnx", f"fp16={half}"], cwd=name, check=True)
        graph = (folder / "model.ncnn.param").read_text()
        described = (folder / "model.pnnx.param").read_text()
        _check(graph)
        inputs = [(name, _shape(sizes), kind) for name, sizes, kind in _INPUT.findall(described)]
        if not inputs or any(kind != "f32" for _, _, kind in inputs):
            raise ValueError("pnnx found no inputs of float32")
        weights = (folder / "model.ncnn.bin").read_bytes()
        Path(converted).write_bytes(packed(weights, graph, [shape for _, shape, _ in inputs]))


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    return Session(model, threads, wanted)


class Session:
    """A loaded model; `wanted` are the names of its outputs, all if empty."""

    def __init__(self, model: str, threads: int, wanted: Sequence[str]) -> None:
        graph, shapes, _ = read_graph(model)
        self._net = ncnn.Net()
        options = self._net.opt
        options.num_threads = threads
        half = model.endswith(HALF)
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = half
        options.use_int8_inference = True  # of the layers that have int8 weights
        if self._net.load_param_mem(graph) or self._net.load_model(model):
            raise ValueError("ncnn cannot load the model")
        names = self._net.input_names()
        single = np.dtype("float32")
        self.inputs = [
            Tensor(name=name, shape=tuple(shape), dtype=single) for name, shape in zip(names, shapes)
        ]
        known = self._net.output_names()
        for name in wanted:
            if name not in known:
                raise ValueError(f"the model has no output {name}")
        self.outputs = [Tensor(name=name, shape=(), dtype=single) for name in wanted or known]

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Open sizes are those of the arrays."""

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        extractor = self._net.create_extractor()
        for tensor, array in zip(self.inputs, inputs):
            # Its tensors have no batch. Layers that work in place need memory of ncnn.
            extractor.input(tensor.name, ncnn.Mat(array[0]).clone())
        results = []
        for output in self.outputs:
            status, found = extractor.extract(output.name)
            if status:
                raise RuntimeError(f"ncnn cannot compute {output.name}: status {status}")
            results.append(np.array(found))
        return results


def _check(graph: str) -> None:
    """Raises ValueError for operators that pnnx wrote and ncnn does not have."""
    types = {line.split()[0] for line in graph.splitlines()[2:] if line.strip()}
    unknown = sorted(kind for kind in types if ncnn.layer_to_index(kind) < 0)
    if unknown:
        raise ValueError(f"ncnn has no {', '.join(unknown)}")


def _shape(sizes: str) -> list[int]:
    return [0 if size == "?" else int(size) for size in sizes.split(",")]
