"""Small networks written as ONNX, and their outputs by ONNX Runtime."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.config.darknet_cfg import parse_cfg
from harness.exporting.calibration import Calibration, read_calibration
from harness.exporting.network import Network, read_network
from harness.exporting.onnx_writer import onnx_model
from harness.exporting.outputs import Output, outputs_of
from harness.exporting.precision_plan import plan_precisions

Floats = npt.NDArray[np.float32]


def write_random(folder: Path, text: str, seed: int = 1) -> tuple[Path, Path]:
    """A cfg with seeded weights: small kernels, variances around one."""
    cfg, weights = folder / "net.cfg", folder / "net.weights"
    cfg.write_text(text)
    rng = np.random.default_rng(seed)
    parts = [struct.pack("<iiiq", 0, 2, 5, 0)]
    network = parse_cfg(text, "net.cfg")
    for layer in network.layers:
        count = layer.parameters
        if count is None:
            count = layer.channels * (int(np.prod(network.output_of(layer.inputs[0]))) + 1)
        values = rng.normal(size=count).astype("<f4") / 4
        if "batch_normalize=1" in text and layer.kind == "convolutional":
            values[layer.channels : 4 * layer.channels] = rng.uniform(0.5, 1.5, 3 * layer.channels)
        parts.append(values.tobytes())
    weights.write_bytes(b"".join(parts))
    return cfg, weights


def exported(
    cfg: Path, weights: Path, calibration: Path | None = None
) -> tuple[bytes, Network, tuple[Output, ...]]:
    """A model as ONNX in the precisions of its cfg."""
    network = read_network(cfg, weights)
    recorded = read_calibration(calibration, network) if calibration else Calibration()
    outputs = outputs_of(network, cfg)
    return onnx_model(network, plan_precisions(network, recorded), outputs, {}), network, outputs


def run(model: bytes, *inputs: Floats) -> dict[str, Floats]:
    """The outputs by name. The values of the inputs are given without the batch."""
    session = _session(model)
    feed = {
        given.name: np.asarray(values, np.float32).reshape(given.shape)
        for given, values in zip(session.get_inputs(), inputs, strict=True)
    }
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def fused(model: bytes, folder: Path) -> Counter[str]:
    """The operators that ONNX Runtime makes of a model."""
    import onnx

    _session(model, folder / "optimised.onnx")
    return Counter(node.op_type for node in onnx.load(str(folder / "optimised.onnx")).graph.node)


def operators(model: bytes) -> Counter[str]:
    import onnx

    return Counter(node.op_type for node in onnx.load_from_string(model).graph.node)


def _session(model: bytes, optimised: Path | None = None) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if optimised:
        options.optimized_model_filepath = str(optimised)
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
