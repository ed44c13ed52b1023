"""Arm NN: the Arm Compute Library (CpuAcc) for operators that it has, else plain loops (CpuRef)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .armnn_profile import operators
from .tensors import Tensor

BACKENDS = "CpuAcc", "CpuRef"  # preferred ones first
_LIBRARIES = Path(next(path for path in sys.path if Path(path, "pyarmnn").is_dir()), "usr", "lib")
_ORDER = "armnn", "flatbuffers", "armnnTfLiteParser", "arm_compute_core", "arm_compute", "armnnAclCommon"
_LOADED: dict[str, ctypes.CDLL] = {}
# The loader takes libraries that are in memory already for those that the next ones need.
for _name in _ORDER:
    for _path in _LIBRARIES.glob(f"*/lib{_name}.so.*"):  # x86-64 has no CpuAcc, and not its libraries
        _LOADED[_name] = ctypes.CDLL(str(_path), mode=ctypes.RTLD_GLOBAL)

import pyarmnn  # noqa: E402 - needs these libraries

_CPP_SCHEDULER = 1  # of arm_compute::Scheduler::Type
_TYPES = {
    pyarmnn.DataType_Float32: "float32",
    pyarmnn.DataType_Float16: "float16",
    pyarmnn.DataType_QAsymmU8: "uint8",
    pyarmnn.DataType_QAsymmS8: "int8",
    pyarmnn.DataType_QSymmS8: "int8",
    pyarmnn.DataType_Signed32: "int32",
}


def version() -> str:
    return str(pyarmnn.GetVersion())


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    return Session(model, threads, wanted)


def profile(
    model: str, threads: int, inputs: Sequence[np.ndarray], runs: int, path: str
) -> list[dict[str, object]]:
    """A row for each operator, with the backend that executed it, in a session of its own."""
    session = Session(model, threads, ())
    session.resize([tensor.shape for tensor in session.inputs])
    return session.profile(inputs, runs)


class Session:
    """A loaded model; `wanted` are the names of its outputs, all if empty."""

    def __init__(self, model: str, threads: int, wanted: Sequence[str]) -> None:
        parser = pyarmnn.ITfLiteParser()
        network = parser.CreateNetworkFromBinaryFile(model)
        names = list(parser.GetSubgraphOutputTensorNames(0))
        for name in wanted:
            if name not in names:
                raise ValueError(f"the model has no output {name}; Arm NN does not tell tensors within it")
        self._inputs = [
            (name, *parser.GetNetworkInputBindingInfo(0, name))
            for name in parser.GetSubgraphInputTensorNames(0)
        ]
        self._outputs = [
            (name, *parser.GetNetworkOutputBindingInfo(0, name)) for name in (list(wanted) or names)
        ]
        # All outputs need memory, also those that are not wanted.
        every = [parser.GetNetworkOutputBindingInfo(0, name) for name in names]
        self._made = dict(pyarmnn.make_output_tensors(every))
        self.inputs = [_tensor(name, info) for name, _, info in self._inputs]
        self.outputs = [_tensor(name, info) for name, _, info in self._outputs]
        # First: for int8, the library waits for as many threads as it had when the network was loaded.
        _set_threads(threads)
        self._load(network)

    def _load(self, network: Any) -> None:
        options = pyarmnn.CreationOptions()
        options.m_DynamicBackendsPath = str(next(_LIBRARIES.glob("*/armnn*")))
        self._runtime = pyarmnn.IRuntime(options)
        device = self._runtime.GetDeviceSpec()
        preferred = [pyarmnn.BackendId(name) for name in BACKENDS]
        optimised, _ = pyarmnn.Optimize(network, preferred, device, pyarmnn.OptimizerOptions())
        self._network, _ = self._runtime.LoadNetwork(optimised)

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Arm NN's parser does not change sizes."""
        for tensor, shape in zip(self.inputs, shapes):
            if tuple(tensor.shape) != tuple(shape):
                raise ValueError(f"Arm NN cannot change the shape {tensor.shape} of the input {tensor.name}")

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        given = [
            (identifier, pyarmnn.ConstTensor(info, array))
            for (_, identifier, info), array in zip(self._inputs, inputs)
        ]
        self._runtime.EnqueueWorkload(self._network, given, list(self._made.items()))
        # Memory areas have one axis.
        return [
            self._made[identifier].get_memory_area().reshape(output.shape).copy()
            for (_, identifier, _), output in zip(self._outputs, self.outputs)
        ]

    def profile(self, inputs: Sequence[np.ndarray], runs: int) -> list[dict[str, object]]:
        self.run(inputs)
        profiler = self._runtime.GetProfiler(self._network)
        profiler.EnableProfiling(True)
        for _ in range(runs):
            self.run(inputs)
        return operators(profiler.as_json())


def _set_threads(threads: int) -> None:
    """The Arm Compute Library starts a thread for each core; this version of Arm NN cannot tell it otherwise.
    Its scheduler has a C++ method for it."""
    library = _LOADED.get("arm_compute")
    if library is None:
        return  # CpuRef has one thread
    if library._ZN11arm_compute9Scheduler8get_typeEv() != _CPP_SCHEDULER:
        raise ValueError("the Arm Compute Library has another scheduler, whose threads cannot be set")
    scheduler = library._ZN11arm_compute9Scheduler3getEv
    scheduler.restype = ctypes.c_void_p
    library._ZN11arm_compute12CPPScheduler15set_num_threadsEj(
        ctypes.c_void_p(scheduler()), ctypes.c_uint(threads)
    )


def _tensor(name: str, info: Any) -> Tensor:
    if info.GetDataType() not in _TYPES:
        raise ValueError(f"the tensor {name} has Arm NN's type {info.GetDataType()}")
    shape = info.GetShape()
    return Tensor(
        name=name,
        shape=tuple(shape[axis] for axis in range(info.GetNumDimensions())),
        dtype=np.dtype(_TYPES[info.GetDataType()]),
        grid=(info.GetQuantizationScale(), info.GetQuantizationOffset()) if info.IsQuantized() else None,
    )
