"""LiteRT, TensorFlow Lite's runtime, with its interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ai_edge_litert
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from .tensors import Tensor


def version() -> str:
    return str(ai_edge_litert.__version__)


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    resolver = OpResolverType.AUTO
    if "xnnpack=false" in options:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model, num_threads=threads, experimental_op_resolver_type=resolver)
    names = [each["name"] for each in interpreter.get_output_details()]
    if any(name not in names for name in wanted):
        # A tensor within the network: its memory must not be used again.
        interpreter = Interpreter(
            model,
            num_threads=threads,
            experimental_op_resolver_type=resolver,
            experimental_preserve_all_tensors=True,
        )
    return Session(interpreter, wanted)


class Session:
    """A loaded model; `wanted` are the names of tensors, all outputs if empty."""

    def __init__(self, interpreter: Any, wanted: Sequence[str]) -> None:
        self._interpreter = interpreter
        self._inputs = interpreter.get_input_details()
        self._outputs = interpreter.get_output_details()
        if wanted:
            known = {each["name"]: each for each in interpreter.get_tensor_details()}
            known.update((each["name"], each) for each in self._outputs)
            for name in wanted:
                if name not in known:
                    raise ValueError(f"the model has no tensor {name}")
            self._outputs = [known[name] for name in wanted]
        self.inputs = [_tensor(each) for each in self._inputs]
        self.outputs = [_tensor(each) for each in self._outputs]

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Gives open sizes their values, and all tensors memory."""
        for detail, shape in zip(self._inputs, shapes):
            if tuple(detail["shape"]) != tuple(shape):
                self._interpreter.resize_tensor_input(detail["index"], shape)
        self._interpreter.allocate_tensors()

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        for detail, array in zip(self._inputs, inputs):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(detail["index"]) for detail in self._outputs]


def _tensor(detail: Any) -> Tensor:
    shape = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    scale, zero = detail["quantization"]
    return Tensor(
        name=detail["name"],
        shape=tuple(int(size) for size in shape),
        dtype=np.dtype(detail["dtype"]),
        grid=(float(scale), int(zero)) if scale else None,
    )
