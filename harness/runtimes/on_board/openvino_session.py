"""OpenVINO, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino

from .openvino_profile import operators
from .tensors import Tensor

_WEIGHTED = ("Convolution", "ConvolutionBackpropData", "GroupConvolution", "MatMul")


def version() -> str:
    return str(openvino.__version__).partition("-")[0]


def load(model: str, *, threads: int, options: Sequence[str] = (), wanted: Sequence[str] = ()) -> Session:
    return Session(model, threads, wanted)


class Session:
    """A loaded model; `wanted` are the names of tensors, all outputs if empty."""

    def __init__(self, model: str, threads: int, wanted: Sequence[str], *, profile: bool = False) -> None:
        self._core = openvino.Core()
        self._model = self._core.read_model(model)
        known = {name for output in self._model.outputs for name in output.get_names()}
        self._model.add_outputs([name for name in wanted if name not in known])
        places = {
            name: place for place, output in enumerate(self._model.outputs) for name in output.get_names()
        }
        self._places = [places[name] for name in wanted] or range(len(self._model.outputs))
        self._settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            # In place of bfloat16 on some processors.
            "INFERENCE_PRECISION_HINT": _precision(self._core, self._model),
            "PERF_COUNT": profile,
        }
        self.inputs = [_tensor(each, _grid_of_input(each.get_node())) for each in self._model.inputs]
        outputs = [self._model.outputs[place] for place in self._places]
        self.outputs = [_tensor(each, _grid_of_output(each.get_node())) for each in outputs]

    def resize(self, shapes: Sequence[Sequence[int]]) -> None:
        """Gives open sizes their values, and compiles the model."""
        self._model.reshape({place: list(shape) for place, shape in enumerate(shapes)})
        self._request = self._core.compile_model(self._model, "CPU", self._settings).create_infer_request()

    def run(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        self._request.infer(dict(enumerate(inputs)))
        return [np.array(self._request.get_output_tensor(place).data) for place in self._places]

    def counters(self) -> Sequence[Any]:
        """The times of the last run."""
        found: Sequence[Any] = self._request.get_profiling_info()
        return found


def profile(
    model: str, threads: int, inputs: Sequence[np.ndarray], runs: int, path: str
) -> list[dict[str, object]]:
    """The operators of the compiled graph in their order, each with its median time."""
    session = Session(model, threads, (), profile=True)
    session.resize([array.shape for array in inputs])
    profiles = []
    for _ in range(runs + 1):
        session.run(inputs)
        profiles.append(session.counters())
    return operators(profiles[1:])


def _precision(core: Any, model: Any) -> str:
    """f16 if all weighted operators compute in it, and the processor can."""
    types = {
        node.get_output_element_type(0).get_type_name()
        for node in model.get_ops()
        if node.get_type_name() in _WEIGHTED
    }
    has_fp16 = "FP16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return "f16" if types == {"f16"} and has_fp16 else "f32"


def _tensor(port: Any, grid: tuple[float, int] | None) -> Tensor:
    shape = tuple(-1 if size.is_dynamic else size.get_length() for size in port.get_partial_shape())
    dtype = np.dtype(port.get_element_type().to_dtype())
    return Tensor(
        name=next(iter(port.get_names()), port.get_node().get_friendly_name()),
        shape=shape,
        dtype=dtype,
        grid=grid if dtype.kind in "iu" else None,
    )


def _grid_of_input(node: Any) -> tuple[float, int] | None:
    """The scale and zero point of a TensorFlow Lite input: OpenVINO makes them a FakeQuantize's limits."""
    while node.get_type_name() in ("Parameter", "Transpose", "Convert"):
        following = list(node.output(0).get_target_inputs())
        if len(following) != 1:
            return None
        node = following[0].get_node()
    return _grid(node, codes=(1, 2), real=(3, 4))


def _grid_of_output(node: Any) -> tuple[float, int] | None:
    while node.get_type_name() in ("Result", "Transpose", "Convert"):
        node = node.input_value(0).get_node()
    return _grid(node, codes=(3, 4), real=(1, 2))


def _grid(node: Any, *, codes: tuple[int, int], real: tuple[int, int]) -> tuple[float, int] | None:
    """The grid of a FakeQuantize with the limits of integers and of real numbers at these inputs."""
    if node.get_type_name() != "FakeQuantize":
        return None
    low, high, least, most = (
        float(node.input_value(place).get_node().data.reshape(-1)[0]) for place in codes + real
    )
    scale = (most - least) / (high - low)
    return scale, round(low - least / scale)
