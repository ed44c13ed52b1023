"""TensorFlow, on the CPU, by its C library (tensorflow/c/c_api.h).

A model is a ZIP archive of a SavedModel. Its assets.extra/signature.json names the tensors of the graph.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import zipfile
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from .tensors import Tensor

_FLOAT = 1  # TF_FLOAT
_TAG = b"serve"
_loaded: list[Any] = []  # the library, which a process loads once


class _Output(ctypes.Structure):
    """TF_Output: an operation's output."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


# Results and arguments of functions; a pointer that is not declared would be cut to 32 bits.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "TF_Version": (c_char_p, []),
    "TF_NewStatus": (c_void_p, []),
    "TF_GetCode": (c_int, [c_void_p]),
    "TF_Message": (c_char_p, [c_void_p]),
    "TF_NewGraph": (c_void_p, []),
    "TF_NewSessionOptions": (c_void_p, []),
    "TF_SetConfig": (None, [c_void_p, c_char_p, c_size_t, c_void_p]),
    "TF_LoadSessionFromSavedModel": (
        c_void_p,
        [c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, c_void_p, c_void_p],
    ),
    "TF_GraphOperationByName": (c_void_p, [c_void_p, c_char_p]),
    "TF_AllocateTensor": (c_void_p, [c_int, POINTER(c_int64), c_int, c_size_t]),
    "TF_TensorData": (c_void_p, [c_void_p]),
    "TF_TensorType": (c_int, [c_void_p]),
    "TF_NumDims": (c_int, [c_void_p]),
    "TF_Dim": (c_int64, [c_void_p, c_int]),
    "TF_DeleteTensor": (None, [c_void_p]),
    "TF_SessionRun": (
        None,
        [
            *(c_void_p, c_void_p, POINTER(_Output), POINTER(c_void_p), c_int),
            *(POINTER(_Output), POINTER(c_void_p), c_int, c_void_p, c_int, c_void_p, c_void_p),
        ],
    ),
}


def version() -> str:
    """Of the library that `load` has loaded."""
    return str(_loaded[-1].TF_Version().decode())


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    if not _loaded:
        _loaded.append(_library([each.partition("=")[2] for each in options if each.startswith("library=")]))
    return Session(_loaded[-1], model, threads, wanted)


def config(threads: int) -> bytes:
    """A ConfigProto: `threads` within an operator, and one operator at a time, in the thread that asks: a
    profiler from outside counts that one."""
    if not 0 < threads < 128:
        raise ValueError(f"{threads} threads: TensorFlow gets 1 to 127")  # one byte as a varint
    # intra_op_parallelism_threads, and -1 as inter_op_parallelism_threads
    return bytes((2 << 3, threads, 5 << 3)) + b"\xff" * 9 + b"\x01"


class Session:
    """A loaded model; `wanted` are the names of its outputs, all if empty."""

    def __init__(self, library: Any, model: str, threads: int, wanted: Sequence[str]) -> None:
        self._library = library
        self._status = library.TF_NewStatus()
        self._graph = library.TF_NewGraph()
        with tempfile.TemporaryDirectory() as folder:  # only this user can read it
            with zipfile.ZipFile(model) as archive:
                archive.extractall(folder)
            signature = json.loads((Path(folder) / "assets.extra" / "signature.json").read_text())
            self._session = self._load(folder, threads)
        known = {each["name"]: each for each in signature["outputs"]}
        for name in wanted:
            if name not in known:
                raise ValueError(f"the model has no output {name}")
        outputs = [known[name] for name in wanted] or signature["outputs"]
        self.inputs = [_tensor(each) for each in signature["inputs"]]
        self.outputs = [_tensor(each) for each in outputs]
        self._inputs = self._places(signature["inputs"])
        self._outputs = self._places(outputs)

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Exports have no open sizes."""
        for tensor, shape in zip(self.inputs, shapes):
            if tensor.shape != tuple(shape):
                raise ValueError(f"the input {tensor.name} has the shape {tensor.shape}, not {tuple(shape)}")

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        given = (c_void_p * len(inputs))(*map(self._copied, inputs))
        found = (c_void_p * len(self.outputs))()
        try:
            self._library.TF_SessionRun(
                *(self._session, None, self._inputs, given, len(given)),
                *(self._outputs, found, len(found), None, 0, None, self._status),
            )
            self._check()
            return [self._values(tensor) for tensor in found if tensor]
        finally:
            for tensor in (*given, *found):
                if tensor:
                    self._library.TF_DeleteTensor(tensor)

    def _load(self, folder: str, threads: int) -> int:
        options = self._library.TF_NewSessionOptions()
        settings = config(threads)
        self._library.TF_SetConfig(options, settings, len(settings), self._status)
        self._check()
        session: int = self._library.TF_LoadSessionFromSavedModel(
            *(options, None, os.fsencode(folder), (c_char_p * 1)(_TAG), 1),
            *(self._graph, None, self._status),
        )
        self._check()
        return session

    def _places(self, tensors: Sequence[dict[str, Any]]) -> Any:
        places = (_Output * len(tensors))()
        for place, tensor in zip(places, tensors):
            name, _, index = tensor["tensor"].partition(":")
            place.operation = self._library.TF_GraphOperationByName(self._graph, name.encode())
            place.index = int(index)
            if not place.operation:
                raise ValueError(f"the graph has no operation {name}")
        return places

    def _copied(self, array: np.ndarray) -> int:
        """A tensor with the values of an array."""
        array = np.ascontiguousarray(array, np.float32)
        sizes = (c_int64 * array.ndim)(*array.shape)
        tensor: int = self._library.TF_AllocateTensor(_FLOAT, sizes, array.ndim, array.nbytes)
        ctypes.memmove(self._library.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def _values(self, tensor: int) -> np.ndarray:
        """A copy of a tensor's values."""
        if (kind := self._library.TF_TensorType(tensor)) != _FLOAT:
            raise ValueError(f"an output has TensorFlow's type {kind}, not float32")
        axes = range(self._library.TF_NumDims(tensor))
        values = np.empty([self._library.TF_Dim(tensor, axis) for axis in axes], np.float32)
        ctypes.memmove(values.ctypes.data, self._library.TF_TensorData(tensor), values.nbytes)
        return values

    def _check(self) -> None:
        if self._library.TF_GetCode(self._status):
            raise RuntimeError(self._library.TF_Message(self._status).decode(errors="replace"))


def _library(paths: Sequence[str]) -> Any:
    """The last of the libraries; it needs those before it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors alone
    library: Any = None
    for path in paths:
        # Not for all modules: it has symbols of BoringSSL, with which Python's hashlib would crash.
        library = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _tensor(described: dict[str, Any]) -> Tensor:
    return Tensor(name=described["name"], shape=tuple(described["shape"]), dtype=np.dtype(np.float32))
