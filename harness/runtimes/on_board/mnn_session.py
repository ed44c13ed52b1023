"""MNN, on the CPU."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import MNN
import numpy as np

from .tensors import Tensor

HALF = ".fp16.mnn"  # how the names of models end that compute in fp16 where the processor can
_INT8 = "DT_INT8"  # in the types of operators that compute in int8
_TYPES = (
    (MNN.Halide_Type_Float, "float32"),
    (MNN.Halide_Type_Int, "int32"),
    (MNN.Halide_Type_Int64, "int64"),
    (MNN.Halide_Type_Uint8, "uint8"),
)


def version() -> str:
    return str(MNN.version())


def convert(model: str, converted: str) -> None:
    """By the converter as a library: its command installs packages and sends telemetry."""
    import _tools

    half = ["--fp16"] if converted.endswith(HALF) else []
    _tools.mnnconvert(
        ["mnnconvert", "-f", "ONNX", "--modelFile", model, "--MNNModel", converted, "--bizCode", "_", *half]
    )


def quantise(model: str, converted: str, pictures: str, in_float: Sequence[str]) -> None:
    """To int8, by the offline quantiser as a library. It reads inputs as text, a folder each."""
    import _tools

    images = np.load(pictures, mmap_mode="r", allow_pickle=False)
    with tempfile.TemporaryDirectory(dir=str(Path(converted).parent)) as name:
        whole, folder, settings = (Path(name) / part for part in ("whole.mnn", "pictures", "settings.json"))
        convert(model, str(whole))
        interpreter = MNN.Interpreter(str(whole))
        (given,) = interpreter.getSessionInputAll(interpreter.createSession({"backend": "CPU"}))
        inputs = [{"name": given, "shape": [1, *images.shape[1:]]}]
        for place, image in enumerate(images):
            sample = folder / f"{place:06}"
            sample.mkdir(parents=True)
            np.savetxt(str(sample / f"{given}.txt"), image.reshape(-1), fmt="%.9g")
            (sample / "input.json").write_text(json.dumps({"inputs": inputs}))
        described = {
            "path": f"{folder}/",
            "used_sample_num": len(images),
            "input_type": "sequence",
            "inputs": inputs,
            "batch_size": 1,
            "feature_quantize_method": "ADMM",  # the only one that leaves operators in float and is accurate
            "weight_quantize_method": "MAX_ABS",
            "skip_quant_op_names": list(in_float),
        }
        settings.write_text(json.dumps(described))
        _tools.mnnquant(["mnnquant", str(whole), converted, str(settings)])


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    return Session(model, threads, wanted)


class Session:
    """A loaded model; `wanted` are the names of its outputs, all if empty."""

    def __init__(self, model: str, threads: int, wanted: Sequence[str]) -> None:
        self._interpreter = MNN.Interpreter(model)
        self.half = model.endswith(HALF)
        settings = {"backend": "CPU", "numThread": threads, "precision": "low" if self.half else "high"}
        self._session = self._interpreter.createSession(settings)
        inputs = self._interpreter.getSessionInputAll(self._session)
        outputs = self._interpreter.getSessionOutputAll(self._session)
        for name in wanted:
            if name not in outputs:
                raise ValueError(f"the model has no output {name}")
        self._names = list(wanted) or list(outputs)
        self._inputs = list(inputs.values())
        self.inputs = [_tensor(name, tensor) for name, tensor in inputs.items()]
        self.outputs = [_tensor(name, outputs[name]) for name in self._names]

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Gives open sizes their values."""
        for tensor, shape in zip(self._inputs, shapes):
            self._interpreter.resizeTensor(tensor, tuple(shape))
        self._interpreter.resizeSession(self._session)
        found = self._interpreter.getSessionOutputAll(self._session)
        for name in self._names:
            if min(found[name].getShape(), default=1) <= 0:
                raise ValueError(f"MNN cannot compute the shape of the output {name}")
        self._outputs = [found[name] for name in self._names]

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        self._feed(inputs)
        self._interpreter.runSession(self._session)
        return [_values(tensor, output.dtype) for tensor, output in zip(self._outputs, self.outputs)]

    def timed(self, inputs: Sequence[np.ndarray]) -> list[tuple[str, int]]:
        """The operators in their order: type and nanoseconds."""
        rows: list[tuple[str, int]] = []
        started = 0

        def begin(tensors: object, operator: object) -> bool:
            nonlocal started
            started = time.perf_counter_ns()
            return True

        def end(tensors: object, operator: Any) -> bool:
            rows.append((str(operator.getType()), time.perf_counter_ns() - started))
            return True

        self._feed(inputs)
        self._interpreter.runSessionWithCallBackInfo(self._session, begin, end)
        return rows

    def _feed(self, inputs: Sequence[np.ndarray]) -> None:
        for tensor, array in zip(self._inputs, inputs):
            kind, layout = tensor.getDataType(), tensor.getDimensionType()
            tensor.copyFrom(MNN.Tensor(tuple(array.shape), kind, np.ascontiguousarray(array), layout))


def profile(
    model: str, threads: int, inputs: Sequence[np.ndarray], runs: int, path: str
) -> list[dict[str, object]]:
    """The operators of the optimised graph in their order, each with its median time."""
    session = Session(model, threads, ())
    session.resize([array.shape for array in inputs])
    profiles = [session.timed(inputs) for _ in range(runs + 1)][1:]
    computed = "" if session.half else "float"  # MNN does not tell whether the processor has fp16
    return [
        {
            "type": kind.partition(" ")[0],
            "computed": "int8" if _INT8 in kind else computed,
            "provider": "",
            "ns": int(statistics.median(times)),
        }
        for kind, times in ((row[0][0], [ns for _, ns in row]) for row in zip(*profiles))
    ]


def _tensor(name: str, tensor: Any) -> Tensor:
    kind = tensor.getDataType()
    dtype = next((word for each, word in _TYPES if each is kind), None)
    if dtype is None:
        raise ValueError(f"the tensor {name} has a type that MNN does not tell Python")
    return Tensor(name=name, shape=tuple(tensor.getShape()), dtype=np.dtype(dtype))


def _values(tensor: Any, dtype: np.dtype) -> np.ndarray:
    """A copy of an output."""
    shape = tensor.getShape()
    host = MNN.Tensor(shape, tensor.getDataType(), np.zeros(shape, dtype), tensor.getDimensionType())
    tensor.copyToHostTensor(host)
    return np.array(host.getNumpyData())
