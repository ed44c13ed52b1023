"""Quantised ONNX models become int8 layers with exactly their scales and zero points."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator
from onnx_models import check, imported, kinds, node, random_input, run_imported
from onnx_models import model_of as model_of_opset

from harness.importing.cfg_text import calibration_text
from harness.importing.model import ImportedModel

RANDOM = np.random.default_rng(9)
Array = npt.NDArray[Any]
SHAPE = (1, 4, 6, 8)


def f32(*values: float) -> Array:
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def model_of(nodes: Sequence[NodeProto], shape: Sequence[int], constants: Mapping[str, Array]) -> ModelProto:
    return model_of_opset(nodes, shape, constants, opset=21)


def bytes_of(kind: str, *shape: int, low: int = -127) -> Array:
    return RANDOM.integers(low, 127, shape).astype(kind)


def calibration_of(model: ImportedModel) -> dict[str, Any]:
    text = calibration_text(model)
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


def quantised(tensor: str) -> list[Any]:
    """Quantises a tensor to t_q and back to t_d."""
    return [
        node("QuantizeLinear", f"{tensor} s_{tensor} z_{tensor}", f"{tensor}_q"),
        node("DequantizeLinear", f"{tensor}_q s_{tensor} z_{tensor}", f"{tensor}_d"),
    ]


def with_pairs(kind: str, *, relu: bool) -> ModelProto:
    """A convolution between pairs of QuantizeLinear and DequantizeLinear, as quantisers write them."""
    zero = {"uint8": 130, "int8": 2}[kind]
    return model_of(
        [
            *quantised("x"),
            node("DequantizeLinear", "w s_w z_w", "w_d", axis=0),
            node("DequantizeLinear", "b s_b z_b", "b_d", axis=0),
            node("Conv", "x_d w_d b_d", "r" if relu else "c", pads=[1, 1, 1, 1]),
            *([node("Relu", "r", "c")] if relu else []),
            node("QuantizeLinear", "c s_c z_c", "c_q"),
            node("DequantizeLinear", "c_q s_c z_c"),
        ],
        SHAPE,
        {
            "s_x": f32(0.05),
            "z_x": np.array(zero, kind),
            "w": bytes_of("int8", 5, 4, 3, 3),
            "s_w": f32(0.01, 0.02, 0.004, 0.01, 0.03),
            "z_w": np.zeros(5, np.int8),
            "b": RANDOM.integers(-500, 500, 5).astype(np.int32),
            "s_b": 0.05 * f32(0.01, 0.02, 0.004, 0.01, 0.03),
            "z_b": np.zeros(5, np.int32),
            "s_c": f32(0.11),
            "z_c": np.array(0 if kind == "uint8" else -128, kind),
        },
    )


def check_on_grids(model: ModelProto, folder: Path) -> ImportedModel:
    """Compares with every tensor on its grid: at most one step, where rounding meets a half."""
    x = random_input(SHAPE)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    result = imported(model, folder)
    (found,) = run_imported(result, x, on_grids=True)
    step = calibration_of(result)["tensors"][-1]["scale"]
    wanted = np.asarray(expected)
    assert np.abs(found - wanted).max() <= step * 1.01
    assert np.mean(np.abs(found - wanted) > step / 2) < 0.01
    return result


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("relu", [True, False])
def test_pairs_around_a_convolution(kind: str, relu: bool, tmp_path: Path) -> None:
    model = check_on_grids(with_pairs(kind, relu=relu), tmp_path)
    (section,) = model.sections.found
    # Without a Relu of its own, the grid that begins at zero is one.
    assert {("activation", "relu"), ("int8", "1"), ("quantize", "0")} <= set(section.keys)
    found = calibration_of(model)
    assert found["tensors"] == [
        {"layer": -1, "scale": pytest.approx(0.05), "zero_point": 2},
        {"layer": 0, "scale": pytest.approx(0.11), "zero_point": -128},
    ]
    assert found["weights"] == [{"layer": 0, "scales": pytest.approx([0.01, 0.02, 0.004, 0.01, 0.03])}]


def test_a_quantised_network_of_operators_of_their_own(tmp_path: Path) -> None:
    model = model_of(
        [
            node("QuantizeLinear", "x s_x z_x", "x_q"),
            node("QLinearConv", "x_q s_x z_x w s_w z_w s_c z_c b", "c", pads=[1, 1, 1, 1]),
            node("MaxPool", "c", "m", kernel_shape=[2, 2], strides=[2, 2]),
            node("DequantizeLinear", "m s_c z_c"),
        ],
        SHAPE,
        {
            "s_x": f32(0.05),
            "z_x": np.array(120, np.uint8),
            "w": bytes_of("uint8", 5, 4, 3, 3, low=0),
            "s_w": f32(0.02),
            "z_w": np.array(60, np.uint8),
            "b": RANDOM.integers(-500, 500, 5).astype(np.int32),
            "s_c": f32(0.2),
            "z_c": np.array(128, np.uint8),
        },
    )
    result = check_on_grids(model, tmp_path)
    assert kinds(result) == ["convolutional", "pool"]
    assert [entry["zero_point"] for entry in calibration_of(result)["tensors"]] == [-8, 0, 0]
    weights = result.sections.found[0].weights[1] / 0.02
    assert np.abs(weights - np.rint(weights)).max() < 1e-3


def test_weights_far_from_their_zero_point_are_quantised_again(tmp_path: Path) -> None:
    weights = bytes_of("uint8", 3, 4, 1, 1, low=0)
    weights[1] = 255
    model = model_of(
        [
            *quantised("x"),
            node("DequantizeLinear", "w s_w z_w", "w_d"),
            node("Conv", "x_d w_d"),
        ],
        SHAPE,
        {
            "s_x": f32(0.05),
            "z_x": np.array(0, np.int8),
            "w": weights,
            "s_w": f32(0.02),
            "z_w": np.array(60, np.uint8),
        },
    )
    result = check(model, tmp_path, tolerance=0.05)
    scales = calibration_of(result)["weights"][0]["scales"]
    assert scales == pytest.approx([0.02, 0.02 * 195 / 127, 0.02])
    (warning,) = result.warnings
    assert warning.startswith("weights of 1 of 3 channels in 1 layers are further than 127 steps from")


def test_weights_that_the_model_quantises_itself(tmp_path: Path) -> None:
    """As quantisation-aware training exports them: as floats, with scales for each output."""
    model = model_of(
        [
            *quantised("x"),
            node("QuantizeLinear", "w s_w z_w", "w_q", axis=0),
            node("DequantizeLinear", "w_q s_w z_w", "w_d", axis=0),
            node("Conv", "x_d w_d"),
        ],
        SHAPE,
        {
            "s_x": f32(0.05),
            "z_x": np.array(0, np.int8),
            "w": RANDOM.normal(size=(3, 4, 1, 1)).astype(np.float32),
            "s_w": f32(0.02, 0.03, 0.01),
            "z_w": np.zeros(3, np.int8),
        },
    )
    result = check(model, tmp_path, tolerance=0.05)
    assert calibration_of(result)["weights"] == [{"layer": 0, "scales": pytest.approx([0.02, 0.03, 0.01])}]
    stored = result.sections.found[0].weights[1].reshape(3, 4) / np.array([[0.02], [0.03], [0.01]])
    assert np.abs(stored - np.rint(stored)).max() < 1e-4


def test_a_tensor_that_is_read_before_and_after_its_quantisation(tmp_path: Path) -> None:
    model = model_of(
        [node("Exp", "x", "e"), *quantised("e"), node("Add", "e e_d")],
        SHAPE,
        {"s_e": f32(0.05), "z_e": np.array(-10, np.int8)},
    )
    result = imported(model, tmp_path)
    assert kinds(result) == ["exp", "activation", "add"]
    assert [entry["layer"] for entry in calibration_of(result)["tensors"]] == [1]


def test_weights_that_are_quantised_alone_are_multiplied_by_inputs_of_run_time(tmp_path: Path) -> None:
    """As ONNX Runtime's dynamic quantisation writes them."""
    model = model_of(
        [
            node("DynamicQuantizeLinear", "x", "q s z"),
            node("MatMulInteger", "q w z z_w", "i"),
            node("Cast", "i", "f", to=1),
            node("Mul", "s s_w", "both"),
            node("Mul", "f both", "m"),
            node("Add", "m b"),
        ],
        (1, 12),
        {
            "w": bytes_of("int8", 12, 5),
            "z_w": np.array(0, np.int8),
            "s_w": f32(0.02),
            "b": RANDOM.normal(size=5).astype(np.float32),
        },
    )
    result = check(model, tmp_path, tolerance=0.05)
    (section,) = result.sections.found
    assert (section.kind, section.keys[-2:]) == ("connected", [("int8", "1"), ("quantize", "1")])
    assert calibration_of(result)["weights"] == [{"layer": 0, "scales": pytest.approx([0.02])}]


def test_16_bit_activations_run_in_int16(tmp_path: Path) -> None:
    model = model_of(
        [*quantised("x"), node("DequantizeLinear", "w s_w z_w", "w_d"), node("Conv", "x_d w_d")],
        SHAPE,
        {
            "s_x": f32(0.001),
            "z_x": np.array(0, np.int16),
            "w": bytes_of("int8", 3, 4, 1, 1),
            "s_w": f32(0.02),
            "z_w": np.array(0, np.int8),
        },
    )
    result = imported(model, tmp_path)
    assert result.sections.found[0].keys[-1] == ("int16", "1")
    assert not result.warnings
    calibration = calibration_of(result)
    assert calibration["tensors"] == [
        {"layer": -1, "min": pytest.approx(-32.768), "max": pytest.approx(32.767)}
    ]
    assert calibration["weights"] == [{"layer": 0, "scales": pytest.approx([0.02])}]
