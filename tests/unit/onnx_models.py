"""Small ONNX models, their outputs by onnx's reference evaluator, and those of the imported cfg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cfg_executor import Network
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from harness.config.preprocessing import Preprocessing
from harness.importing.cfg_text import calibration_text, cfg_text, weights_bytes
from harness.importing.model import ImportedModel, import_model

Array = npt.NDArray[Any]


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """A node; names of inputs and outputs are separated by blanks, an absent one is a dash."""
    names = ["" if name == "-" else name for name in inputs.split()]
    domain = attributes.pop("domain", "")
    return helper.make_node(op, names, outputs.split(), name=f"the_{op}", domain=domain, **attributes)


def model_of(
    nodes: Sequence[NodeProto],
    shape: Sequence[int | str] = (1, 4, 6, 8),
    constants: Mapping[str, Array] | None = None,
    *,
    opset: int = 17,
    outputs: str = "y",
) -> ModelProto:
    """A model from the input x to the output y, or to several."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def imported(model: ModelProto, folder: Path, shape: tuple[int, ...] | None = None) -> ImportedModel:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return import_model(path, shape)


def run_imported(model: ImportedModel, x: Array, *more: Array, on_grids: bool = False) -> list[Array]:
    """The outputs in the model's shapes; x has the shape of the model's input, `more` those of the others."""
    network = Network(
        cfg_text(model, Preprocessing(), {}),
        weights_bytes(model),
        calibration_text(model) if on_grids else None,
    )
    found = network.run(np.asarray(x, np.float32).reshape(model.sections.input_shape), *more)
    return [found[output.section].reshape(output.shape) for output in model.outputs]


def random_input(shape: Sequence[int], seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 2


def check(model: ModelProto, folder: Path, *, tolerance: float = 2e-5) -> ImportedModel:
    """Compares the imported model with the reference; returns it."""
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    x = random_input(shape)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    result = imported(model, folder)
    found = run_imported(result, x)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        wanted = np.asarray(theirs)
        assert ours.shape == wanted.shape
        scale = max(float(np.abs(wanted).max()), 1e-6)
        assert float(np.abs(ours - wanted).max()) <= tolerance * scale
    return result


def kinds(model: ImportedModel) -> list[str]:
    """The kinds of the sections, in order."""
    return [section.kind for section in model.sections.found]
