"""ONNX Runtime, on its CPU provider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from .onnxruntime_profile import operators
from .tensors import Tensor

_TYPES = {
    "float": "float32", "float16": "float16", "double": "float64", "uint8": "uint8", "int8": "int8",
    "uint16": "uint16", "int16": "int16", "int32": "int32", "int64": "int64", "bool": "bool",
}  # fmt: skip


def version() -> str:
    return str(onnxruntime.__version__)


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    return Session(_session(model, threads, _options(threads)), wanted)


class Session:
    """A loaded model; `wanted` are the names of its outputs, all if empty."""

    def __init__(self, session: Any, wanted: Sequence[str]) -> None:
        self._session = session
        self.inputs = [_tensor(each) for each in session.get_inputs()]
        known = {each.name: each for each in session.get_outputs()}
        for name in wanted:
            if name not in known:
                raise ValueError(f"the model has no output {name}")
        self.outputs = [_tensor(known[name]) for name in wanted or known]

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Open sizes are those of the arrays."""

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        feeds = {tensor.name: array for tensor, array in zip(self.inputs, inputs)}
        found: Sequence[np.ndarray] = self._session.run([tensor.name for tensor in self.outputs], feeds)
        return found

    def end_profile(self) -> str:
        """The file with the profile."""
        return str(self._session.end_profiling())


def profile(
    model: str, threads: int, inputs: Sequence[np.ndarray], runs: int, path: str
) -> list[dict[str, object]]:
    """The operators of the optimised graph in their order, each with its median time."""
    options = _options(threads)
    options.enable_profiling = True
    options.profile_file_prefix = path
    session = Session(_session(model, threads, options), ())
    try:
        for _ in range(runs + 1):
            session.run(inputs)
        return operators(json.loads(Path(session.end_profile()).read_text("utf-8", "replace")))
    finally:
        for file in Path(path).parent.glob(f"{Path(path).name}*"):
            file.unlink()


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    return options


def _session(model: str, threads: int, options: Any) -> Any:
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _tensor(node: Any) -> Tensor:
    word = node.type[len("tensor(") : -1]
    if word not in _TYPES:
        raise ValueError(f"the tensor {node.name} has the type {node.type}")
    shape = tuple(size if isinstance(size, int) else 0 for size in node.shape)
    return Tensor(name=node.name, shape=shape, dtype=np.dtype(_TYPES[word]))
