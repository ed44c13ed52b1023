"""Each ONNX operator in the engine, against onnx's reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import imported, model_of, node, random_input
from test_importing_onnx import ONE_OPERATOR, ints, weights

from harness.accuracy.model import load_model
from harness.config.preprocessing import Preprocessing
from harness.errors import ConfigurationError
from harness.importing.cfg_text import cfg_text, weights_bytes
from harness.importing.graph import Array
from harness.importing.model import ImportedModel
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = pytest.mark.engine


def stereo() -> ModelProto:
    """Two pictures through the same filters, compared, and weighted by a vector that comes first."""
    shapes = {"weight": (1, 4), "left": (1, 3, 6, 8), "unused": (1, 9), "right": (1, 3, 6, 8)}
    nodes = [
        node("Conv", "left w", "a", pads=[1, 1, 1, 1]),
        node("Conv", "right w", "b", pads=[1, 1, 1, 1]),
        node("Sub", "a b", "difference"),
        node("Reshape", "weight sizes", "factors"),
        node("Mul", "difference factors", "y"),
    ]
    constants: dict[str, Array] = {"w": weights(4, 3, 3, 3), "sizes": ints(1, 4, 1, 1)}
    model = model_of(nodes, constants=constants)
    del model.graph.input[:]
    for name, shape in shapes.items():
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return model


@pytest.mark.parametrize("algorithm", ["reference", None])
def test_several_inputs(algorithm: str | None, tmp_path: Path, host_engine: HostEngine) -> None:
    """The picture is the first input with four axes; inputs that nothing reads are left out."""
    model = stereo()
    left, right, factors = random_input((1, 3, 6, 8)), random_input((1, 3, 6, 8), 2), random_input((1, 4), 3)
    given = {"left": left, "right": right, "weight": factors, "unused": np.zeros((1, 9), np.float32)}
    (found,) = ReferenceEvaluator(model).run(None, given)
    expected = np.asarray(found)
    network = imported(model, tmp_path)
    assert network.sections.input == "left"
    cfg, weights_file = written(network, tmp_path)
    info = host_engine.info(cfg)
    assert [info["layers"][layer]["name"] for layer in info["inputs"][1:]] == ["weight", "right"]
    values = np.concatenate([left.reshape(-1), factors.reshape(-1), right.reshape(-1)])
    heads = host_engine.forward(
        cfg, weights_file, values.reshape(1, -1, 1, 1), EngineOptions(algorithm=algorithm)
    ).heads
    assert np.abs(heads[max(heads)].reshape(expected.shape) - expected).max() <= 2e-5 * np.abs(expected).max()


def test_pictures_do_not_fit_several_inputs(tmp_path: Path, host_engine: HostEngine) -> None:
    cfg, weights_file = written(imported(stereo(), tmp_path), tmp_path)
    with pytest.raises(ConfigurationError, match=f"{cfg.name}: the network has 3 inputs"):
        load_model(host_engine, cfg, weights_file)


def written(network: ImportedModel, folder: Path) -> tuple[Path, Path]:
    cfg, weights_file = folder / "model.cfg", folder / "model.weights"
    cfg.write_text(cfg_text(network, Preprocessing(), {}))
    weights_file.write_bytes(weights_bytes(network))
    return cfg, weights_file


@pytest.mark.parametrize("algorithm", ["reference", None])
@pytest.mark.parametrize("name", ONE_OPERATOR)
def test_the_engine_computes_what_the_reference_computes(
    name: str, algorithm: str | None, tmp_path: Path, host_engine: HostEngine
) -> None:
    model = ONE_OPERATOR[name]
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    x = random_input(shape)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    network = imported(model, tmp_path)
    cfg, weights_file = written(network, tmp_path)
    layers = {layer["name"]: layer["index"] for layer in host_engine.info(cfg)["layers"]}
    image = x.reshape(1, *network.sections.input_shape)
    heads = host_engine.forward(cfg, weights_file, image, EngineOptions(algorithm=algorithm)).heads
    for output, values in zip(network.outputs, expected, strict=True):
        wanted = np.asarray(values)
        found = heads[layers[output.section]].reshape(wanted.shape)
        assert np.abs(found - wanted).max() <= 2e-5 * max(float(np.abs(wanted).max()), 1e-6)
