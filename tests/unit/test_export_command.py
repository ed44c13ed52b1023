"""`harness export`: the file, its metadata, JSON, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exported_models import run, write_random
from networks import CLASSIFIER, DETECTOR
from onnx import ModelProto, load_from_string
from test_import_command import CLASSIFIER as IMPORTED

from harness import cli

YOLO = DETECTOR.replace("fp16 = 1\n", "").replace("int8=1\nquantize=1\n", "").replace("mask=", "num=3\nmask=")


LITE = ["--format", "tflite"]


def export(capsys: pytest.CaptureFixture[str], folder: Path, *words: str | Path) -> tuple[int, str, str]:
    status = cli.main(["export", "--format", "onnx", "--out", str(folder / "out"), *map(str, words)])
    return status, *capsys.readouterr()


def model_of(folder: Path, name: str = "net") -> ModelProto:
    return load_from_string((folder / "out" / f"{name}.onnx").read_bytes())


def metadata(model: ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def test_it_writes_a_detector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cfg, weights = write_random(tmp_path, YOLO)
    cfg.with_suffix(".names").write_text("cat\ndog\n")
    policy = "{default: fp32, layers: {heads: fp16}}"
    status, output, _ = export(
        capsys, tmp_path, "--cfg", cfg, "--weights", weights, "--policy", policy, "--json"
    )
    found = json.loads(output)
    assert status == 0
    assert found["format"] == "onnx"
    assert found["files"] == [str(tmp_path / "out" / "net.onnx")]
    assert found["inputs"] == [{"name": "input", "shape": [1, 3, 32, 32]}]
    assert found["outputs"] == [
        {"name": "head_5", "shape": [1, 21, 16, 16], "layer": 5},
        {"name": "head_11", "shape": [1, 21, 32, 32], "layer": 11},
    ]
    layers = {layer["index"]: layer["precision"] for layer in found["layers"]}
    assert {index: layers[index] for index in (0, 5, 8, 11)} == {0: "fp32", 5: "fp16", 8: "fp32", 11: "fp16"}
    model = model_of(tmp_path)
    said = metadata(model)
    assert model.producer_name == "harness"
    assert said["policy"] == policy
    assert [said[key] for key in ("mean", "std", "colors", "resize")] == ["0", "255", "rgb", "stretch"]
    assert json.loads(said["names"]) == {"0": "cat", "1": "dog"}
    first = {"name": "head_5", "layer": 5, "decoder": "yolo", "mask": "0,1,2", "num": "3", "classes": "2"}
    assert json.loads(said["outputs"])[0] == first
    assert set(json.loads(said["source"])) == {"net.cfg", "net.weights"}


def test_it_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cfg, weights = write_random(tmp_path, CLASSIFIER)
    status, output, _ = export(capsys, tmp_path, "--cfg", cfg, "--weights", weights)
    assert status == 0
    assert output.splitlines() == [
        "output head_2: 1x10x1x1, layer 2",
        "output head_3: 1x10x1x1, layer 3",
        "layers with weights: 2 in fp32",
        str(tmp_path / "out" / "net.onnx"),
    ]


def test_an_imported_model_keeps_names_and_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.onnx").write_bytes(IMPORTED.SerializeToString())
    status, _, _ = export(
        capsys, tmp_path, "--model", tmp_path / "model.onnx", "--mean", "100", "--std", "50"
    )
    assert status == 0
    model = model_of(tmp_path, "model")
    assert [value.name for value in model.graph.input] == ["x"]
    assert [value.name for value in model.graph.output] == ["y"]
    said = metadata(model)
    assert (said["mean"], said["std"], said["resize"]) == ("100", "50", "crop")
    assert set(json.loads(said["source"])) == {"model.onnx"}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--policy", "int8"], "layer 0 (convolutional) and 1 more: int8 needs", "harness calibrate"),
        (["--calibration", "net.cfg"], "net.cfg: not a calibration file", "harness calibrate"),
        ([*LITE, "--policy", "int8"], "layer 0 (convolutional) is int8 with quantize=0", "--dataset"),
        ([*LITE, "--policy", "{tflite: 16x8}"], "net: for 16x8, TensorFlow's converter", "--dataset"),
        ([*LITE, "--policy", "{tflite: 16x8}", "--dataset", "gone"], "gone: the data set does not exist", ""),
        (["--policy", "{tflite: 16x8}"], "makes a TensorFlow Lite file", "--format tflite"),
        (["--dataset", "."], "--dataset applies to --format tflite", "--calibration"),
        ([*LITE, "--resize", "crop"], "--split, --limit and --resize apply to --dataset", "--dataset"),
        (["--limit", "8"], "--split, --limit and --resize apply to --dataset", "--dataset"),
    ],
)
def test_what_lacks_ranges_or_pictures_is_refused(
    words: list[str], message: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg, weights = write_random(tmp_path, CLASSIFIER)
    words = [str(cfg) if word == "net.cfg" else word for word in words]
    status, output, _ = export(capsys, tmp_path, "--cfg", cfg, "--weights", weights, *words, "--json")
    error = json.loads(output)["error"]
    assert status == error["status"] == 2
    assert message in error["message"]
    assert hint in error["hint"]
    assert not (tmp_path / "out").exists()


def test_pictures_are_refused_for_a_network_with_several_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "[net]\nchannels=3\nheight=8\nwidth=8\n[convolutional]\nname=a\nfilters=2\n"
    text += "[input]\nname=b\nchannels=2\nheight=8\nwidth=8\n[add]\nfrom=a,b\n"
    cfg, weights = write_random(tmp_path, text)
    words = [*LITE, "--policy", "{tflite: 16x8}", "--dataset", str(tmp_path)]
    status, _, errors = export(capsys, tmp_path, "--cfg", cfg, "--weights", weights, *words)
    assert status == 2
    assert "net.cfg: the network has several inputs, and pictures fit networks with one" in errors


def test_nothing_is_left_of_an_export_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cfg, weights = write_random(tmp_path, CLASSIFIER)
    (tmp_path / "out").write_text("a file")
    status, _, errors = export(capsys, tmp_path, "--cfg", cfg, "--weights", weights)
    assert status == 2
    assert "out: is not a folder" in errors
    assert (tmp_path / "out").read_text() == "a file"


def test_the_file_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    cfg, weights = write_random(tmp_path, CLASSIFIER)
    assert export(capsys, tmp_path, "--cfg", cfg, "--weights", weights)[0] == 0
    found = run((tmp_path / "out" / "net.onnx").read_bytes(), np.ones((1, 8, 8), np.float32))
    assert abs(float(found["head_3"].sum()) - 1) < 1e-6


def test_sums_beyond_int32_are_exported_in_fp32(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "[net]\nchannels=1\nheight=200\nwidth=200\n[connected]\noutput=2\nint8=1\nquantize=1\n"
    cfg, weights = write_random(tmp_path, text)
    status, output, errors = export(capsys, tmp_path, "--cfg", cfg, "--weights", weights)
    assert status == 0
    assert "layer 0 (connected) is exported in fp32" in errors
    assert "layers with weights: 1 in fp32" in output
