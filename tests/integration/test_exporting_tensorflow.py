"""Exports to TensorFlow: operator by operator against ONNX Runtime, and files as the command writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_models import exported, run, write_random
from PIL import Image
from test_exporting_onnx import ACTIVATIONS, NET, SECTIONS, named

from harness import cli
from harness.exporting.float_operators import float_operators
from harness.importing.tflite_file import FlatModel, parse_flat_model, read_flat_model

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tensorflow = pytest.importorskip("tensorflow")
onnx = pytest.importorskip("onnx")

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Warning. tf.lite.Interpreter is deprecated:UserWarning")

REFUSED = {"deconvolutional": "has groups or dilation"}
LAYER = "[convolutional]\nfilters=8\nsize=3\nstride=2\npad=1\nactivation=leaky\n"
NETWORK = f"[net]\nchannels=3\nheight=32\nwidth=32\n{LAYER}{LAYER}[maxpool]\nsize=2\nstride=1\n{LAYER}"


def last(values: Any) -> Any:
    return values.transpose(0, 2, 3, 1) if values.ndim == 4 else values


def computed(model: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs by TensorFlow, with the channels in ONNX's place."""
    from harness.exporting.tensorflow_program import _function

    graph = onnx.load_from_string(model).graph
    found = _function(graph)(*(tensorflow.constant(last(inputs[each.name])) for each in graph.input))
    return {
        name: value.numpy().transpose(0, 3, 1, 2) if value.shape.rank == 4 else value.numpy()
        for name, value in found.items()
    }


@pytest.mark.parametrize("name", [*SECTIONS, *ACTIVATIONS])
def test_a_section_computes_in_tensorflow_what_it_does_in_onnx(name: str, tmp_path: Path) -> None:
    text = (
        named(SECTIONS[name])
        if name in SECTIONS
        else f"{NET}[convolutional]\nname=y\nfrom=x\nfilters=3\nsize=1\nactivation={name}\n"
    )
    model = exported(*write_random(tmp_path, text))[0]
    rng = np.random.default_rng(3)
    graph = onnx.load_from_string(model).graph
    sizes = {each.name: [size.dim_value for size in each.type.tensor_type.shape.dim] for each in graph.input}
    inputs = {each: rng.normal(size=size).astype(np.float32) for each, size in sizes.items()}
    if name in REFUSED:
        with pytest.raises(Exception, match=REFUSED[name]):
            computed(model, inputs)
        return
    expected = run(model, *inputs.values())["y"]
    found = computed(model, inputs)["y"]
    np.testing.assert_allclose(found, expected, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("policy", ["fp32", "fp16", "{tflite: full-integer}"])
def test_a_file_has_names_and_computes_what_onnx_does(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg, weights = write_random(tmp_path, NETWORK)
    x = np.random.default_rng(2).random((1, 3, 32, 32), np.float32)
    pixels = np.round(255 * x[0].transpose(1, 2, 0)).astype(np.uint8)
    (tmp_path / "pictures").mkdir()
    Image.fromarray(pixels).save(tmp_path / "pictures" / "1.png")
    words = ["--cfg", str(cfg), "--weights", str(weights), "--policy", policy, "--format", "tflite"]
    words += ["--dataset", str(tmp_path / "pictures"), "--limit", "1", "--resize", "stretch"]
    assert cli.main(["export", *words, "--out", str(tmp_path), "--json"]) == 0
    output, errors = capsys.readouterr()
    left = json.loads(output)["float_operators"]
    assert ("--dataset has no effect" in errors) is (policy != "{tflite: full-integer}")
    every = {"CONV_2D": 3, "LEAKY_RELU": 3, "PAD": 3, "MAX_POOL_2D": 1}
    assert left == ({} if policy == "{tflite: full-integer}" else every)
    interpreter = tensorflow.lite.Interpreter(str(tmp_path / "net.tflite"))
    interpreter.allocate_tensors()
    (given,), (output,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert (given["name"], output["name"]) == ("input", "head_3")
    found = in_tensorflow_lite((tmp_path / "net.tflite").read_bytes(), last(x)).transpose(0, 3, 1, 2)
    expected = run(exported(cfg, weights)[0], x)["head_3"]
    tolerance = {"fp32": 1e-5, "fp16": 2e-3}.get(policy, 0.05)
    np.testing.assert_allclose(found, expected, atol=tolerance * float(np.abs(expected).max()))


@pytest.mark.parametrize(
    ("tflite", "ends", "convolution", "tolerance"),
    [
        ("float16", "float32", ["float32", "float32"], 2e-3),
        ("dynamic-range", "float32", ["float32", "int8"], 0.05),
        ("integer-with-float-fallback", "float32", ["int8", "int8"], 0.1),
        ("full-integer", "int8", ["int8", "int8"], 0.1),
        ("16x8", "float32", ["int16", "int8"], 0.02),
    ],
)
@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs were expected:UserWarning")
def test_a_quantisation_has_the_types_of_its_name(
    tflite: str, ends: str, convolution: list[str], tolerance: float, tmp_path: Path
) -> None:
    from harness.exporting.tensorflow_program import _function, _lite

    pooled = NETWORK.replace("stride=1\n[conv", "stride=2\n[conv")  # 16x8 has no PADV2
    filters = pooled.replace("filters=8", "filters=32")  # the converter leaves small ones in float32
    model = exported(*write_random(tmp_path, filters))[0]
    graph = onnx.load_from_string(model).graph
    pictures = np.random.default_rng(2).random((8, 3, 32, 32), np.float32)
    np.save(tmp_path / "pictures.npy", pictures)
    given = None if tflite in ("float16", "dynamic-range") else tmp_path / "pictures.npy"
    written = _lite(tflite, graph, _function(graph).get_concrete_function(), given)
    flat = parse_flat_model(written, "net.tflite")
    types = [flat.tensors[place].type for place in (*flat.inputs, *flat.outputs)]
    assert types == [ends, ends]
    inner = [operator for operator in flat.operators if operator.name == "CONV_2D"][1]
    assert [flat.tensors[place].type for place in inner.inputs[:2]] == convolution
    everything = sum(operator.name != "DEQUANTIZE" for operator in flat.operators)
    left = float_operators(flat)
    expected_left = {"float16": everything, "dynamic-range": everything - left_in_int8(flat)}
    assert left.total() == expected_left.get(tflite, 0)
    found = in_tensorflow_lite(written, last(pictures[:1])).transpose(0, 3, 1, 2)
    expected = run(model, pictures[:1])["head_3"]
    np.testing.assert_allclose(found, expected, atol=tolerance * float(np.abs(expected).max()))


@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs were expected:UserWarning")
def test_layers_in_fp32_stay_in_float_beside_others_in_int8(tmp_path: Path) -> None:
    """The outputs of the graph have lost the name by which others are known: the last layer is one."""
    from harness.exporting.tensorflow_program import _function, _lite

    model = exported(*write_random(tmp_path, NETWORK))[0]
    graph = onnx.load_from_string(model).graph
    pictures = np.random.default_rng(2).random((8, 3, 32, 32), np.float32)
    np.save(tmp_path / "pictures.npy", pictures)
    left = [
        node.name for node in graph.node if node.name.startswith(("convolutional_0/", "convolutional_3/"))
    ]
    function = _function(graph, left).get_concrete_function()
    kind = "integer-with-float-fallback"
    written = _lite(kind, graph, function, tmp_path / "pictures.npy", left)
    flat = parse_flat_model(written, "net.tflite")
    convolutions = [operator for operator in flat.operators if operator.name == "CONV_2D"]
    types = [[flat.tensors[place].type for place in each.inputs[:2]] for each in convolutions]
    assert types == [["float32", "float32"], ["int8", "int8"], ["float32", "float32"]]
    assert {"CONV_2D": 2, "LEAKY_RELU": 2}.items() <= float_operators(flat).items()
    assert [flat.tensors[place].name for place in flat.outputs] == ["head_3"]
    found = in_tensorflow_lite(written, last(pictures[:1])).transpose(0, 3, 1, 2)
    expected = run(model, pictures[:1])["head_3"]
    np.testing.assert_allclose(found, expected, atol=0.1 * float(np.abs(expected).max()))


def left_in_int8(model: FlatModel) -> int:
    """Convolutions with int8 weights."""
    return sum(
        operator.name == "CONV_2D" and model.tensors[operator.inputs[1]].type == "int8"
        for operator in model.operators
    )


def in_tensorflow_lite(model: bytes, picture: Any) -> Any:
    """The output as real numbers."""
    interpreter = tensorflow.lite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    (given,), (output,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero = given["quantization"]
    if scale:
        picture = np.clip(np.round(picture / scale) + zero, -128, 127).astype(given["dtype"])
    interpreter.set_tensor(given["index"], picture)
    interpreter.invoke()
    found = interpreter.get_tensor(output["index"])
    scale, zero = output["quantization"]
    return (found.astype(np.float32) - zero) * scale if scale else found


@pytest.mark.parametrize(
    ("activation", "pool", "operators"),
    [
        ("leaky", "size=2\nstride=2\n", ["LEAKY_RELU", "MAX_POOL_2D"]),  # Darknet pads, no window reaches it
        ("leaky", "size=2\nstride=1\n", ["LEAKY_RELU", "MAX_POOL_2D"]),  # as SAME
        ("relu", "size=3\nstride=2\npadding=2\n", ["PAD", "MAX_POOL_2D"]),
        ("leaky", "size=3\nstride=2\npadding=2\n", ["LEAKY_RELU", "PADV2", "MAX_POOL_2D"]),
    ],
)
def test_a_maximum_is_padded_by_what_most_runtimes_have(
    activation: str, pool: str, operators: list[str], tmp_path: Path
) -> None:
    layer = f"[convolutional]\nfilters=4\nsize=1\nactivation={activation}\n"
    cfg, weights = write_random(tmp_path, f"[net]\nchannels=3\nheight=8\nwidth=8\n{layer}[maxpool]\n{pool}")
    words = ["--cfg", str(cfg), "--weights", str(weights), "--format", "tflite", "--out", str(tmp_path)]
    assert cli.main(["export", *words]) == 0
    model = read_flat_model(tmp_path / "net.tflite")
    assert [operator.name for operator in model.operators] == ["CONV_2D", *operators]
    interpreter = tensorflow.lite.Interpreter(str(tmp_path / "net.tflite"))
    interpreter.allocate_tensors()
    x = np.random.default_rng(6).normal(size=(1, 3, 8, 8)).astype(np.float32)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], last(x))
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    expected = last(run(exported(cfg, weights)[0], x)["head_1"])
    np.testing.assert_allclose(found, expected, atol=1e-5 * float(np.abs(expected).max()))


def write_ranges(path: Path) -> Path:
    """Ranges for NETWORK."""
    tensors = [{"layer": index, "min": -4.0, "max": 4.0} for index in range(-1, 4)]
    network = {"layers": 4, "input": [3, 32, 32]}
    path.write_text(
        json.dumps({"format": "mpe-calibration", "version": 1, "network": network, "tensors": tensors})
    )
    return path


def test_a_calibration_does_not_change_dynamic_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one, the engine has int8 between layers, whose input it does not quantise at run time."""
    cfg, weights = write_random(tmp_path, NETWORK)
    ranges = write_ranges(tmp_path / "ranges.json")
    words = ["--cfg", str(cfg), "--weights", str(weights), "--policy", "{default: int8, quantize: 1}"]
    words += ["--format", "tflite"]
    assert cli.main(["export", *words, "--out", str(tmp_path / "a")]) == 0
    assert "--calibration" not in capsys.readouterr().err
    assert cli.main(["export", *words, "--calibration", str(ranges), "--out", str(tmp_path / "b")]) == 0
    assert "warning: --calibration has no effect" in capsys.readouterr().err
    assert (tmp_path / "a" / "net.tflite").read_bytes() == (tmp_path / "b" / "net.tflite").read_bytes()


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ('{default: fp32, layers: {"3": fp16}}', "layer 3 (convolutional) is fp16 and layer 0 is fp32"),
        ("{default: int16, quantize: 1}", "int16"),
        ("int8", "layer 0 (convolutional) is int8 with quantize=0: TensorFlow's converter records ranges"),
    ],
)
def test_other_precisions_are_refused_with_the_line(
    policy: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg, weights = write_random(tmp_path, NETWORK)
    words = ["--cfg", str(cfg), "--weights", str(weights), "--policy", policy, "--format", "tflite"]
    words += ["--calibration", str(write_ranges(tmp_path / "ranges.json"))]
    assert cli.main(["export", *words, "--out", str(tmp_path / "out")]) != 0
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
