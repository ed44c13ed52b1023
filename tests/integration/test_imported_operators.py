"""Each ONNX operator in the engine, against onnx's reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import imported, random_input
from test_importing_onnx import ONE_OPERATOR

from harness.config.preprocessing import Preprocessing
from harness.importing.cfg_text import cfg_text, weights_bytes
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = pytest.mark.engine


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
    cfg, weights = tmp_path / "model.cfg", tmp_path / "model.weights"
    cfg.write_text(cfg_text(network, Preprocessing(), {}))
    weights.write_bytes(weights_bytes(network))
    layers = {layer["name"]: layer["index"] for layer in host_engine.info(cfg)["layers"]}
    image = x.reshape(1, *network.sections.input_shape)
    heads = host_engine.forward(cfg, weights, image, EngineOptions(algorithm=algorithm)).heads
    for output, values in zip(network.outputs, expected, strict=True):
        wanted = np.asarray(values)
        found = heads[layers[output.section]].reshape(wanted.shape)
        assert np.abs(found - wanted).max() <= 2e-5 * max(float(np.abs(wanted).max()), 1e-6)
