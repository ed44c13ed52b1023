"""`harness import`: files, table, JSON, and what it refuses."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto
from onnx_models import model_of, node

from harness import cli
from harness.config.darknet_cfg import sections_of
from harness.importing.metadata import names_of
from harness.importing.sections import safe_name

CONSTANTS = {"w": np.ones((5, 3, 1, 1), np.float32), "b": np.zeros(5, np.float32)}
CLASSIFIER = model_of(
    [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("GlobalAveragePool", "r")],
    (1, 3, 8, 8),
    CONSTANTS,
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(CLASSIFIER, tmp_path / "my model.onnx")


def written(model: ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = cli.main(["import", *map(str, words)])
    return status, *capsys.readouterr()


def net_of(cfg: Path) -> dict[str, str]:
    return sections_of(cfg.read_text(), str(cfg))[0].options


def test_it_writes_a_cfg_weights_and_a_description(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output, _ = run(capsys, model, "--out", tmp_path / "new" / "folder", "--json")
    found = json.loads(output)
    assert status == 0
    assert [(layer["type"], layer["operators"]) for layer in found["layers"]] == [
        ("convolutional", ["Conv", "Relu"]),
        ("avgpool", ["GlobalAveragePool"]),
    ]
    assert (found["calibration"], found["labels"], found["warnings"], found["cut"]) == (None, None, [], [])
    assert Path(found["cfg"]).name == "my_model.cfg"
    assert Path(found["weights"]).stat().st_size == 20 + 4 * (5 + 15)
    assert net_of(Path(found["cfg"]))["outputs"] == "y"
    described = json.loads(Path(found["description"]).read_text())
    assert described["outputs"] == [{"name": "y", "shape": [1, 5, 1, 1], "section": "y"}]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "my_model.cfg",
        "my_model.import.json",
        "my_model.weights",
    ]


def test_the_table_says_what_became_what(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, output, _ = run(capsys, model, "--out", tmp_path / "out")
    assert "Conv + Relu" in output
    assert "output y: 1x5x1x1, layer y" in output


def test_preprocessing_comes_from_the_options(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--mean", "104,117,123", "--std", "58.5", "--colors", "bgr", "--resize", "letterbox_top_left")
    run(capsys, model, "--out", tmp_path, *words, "--fill", "0", "--decoder", "classifier")
    net = net_of(tmp_path / "my_model.cfg")
    assert (net["mean"], net["std"], net["colors"]) == ("104,117,123", "58.5", "bgr")
    assert (net["resize"], net["fill"], net["decoder"]) == ("letterbox_top_left", "0", "classifier")


def test_what_the_model_does_not_say_is_no_key(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, model, "--out", tmp_path)
    assert (
        not {"mean", "std", "colors", "resize", "fill", "decoder", "labels"}
        & net_of(tmp_path / "my_model.cfg").keys()
    )


def test_preprocessing_and_classes_come_from_the_models_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ModelProto()
    said.CopyFrom(CLASSIFIER)
    for key, value in {"stride": "32", "task": "detect", "names": "{0: 'red  fox', 1: 'hen'}"}.items():
        entry = said.metadata_props.add()
        entry.key, entry.value = key, value
    run(capsys, written(said, tmp_path / "fox.onnx"), "--out", tmp_path)
    run(capsys, tmp_path / "fox.onnx", "--out", tmp_path / "given", "--std", "1", "--fill", "0")
    given = net_of(tmp_path / "given" / "fox.cfg")
    assert (given["mean"], given["std"], given["fill"], given["resize"]) == ("0", "1", "0", "letterbox")
    net = net_of(tmp_path / "fox.cfg")
    assert (net["resize"], net["fill"], net["labels"]) == ("letterbox", "114", "fox.names")
    assert (net["mean"], net["std"], net["colors"]) == ("0", "255", "rgb")
    assert (tmp_path / "fox.names").read_text() == "red fox\nhen\n"


EXPORTED = {
    "mean": "123.675,116.28,103.53",
    "std": "58.395",
    "colors": "bgr",
    "resize": "crop",
    "fill": "7",
    "decoder": "yolov5_heads",
    "anchors": "10,13,16,30",
    "nms": "0.4",
    "detections": "50",
}
EXPORT_MARKS = {"policy": "fp32", "precisions": "{}", "source": "{}"}


def imported_with(
    metadata: Mapping[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, str]:
    """[net] of a model with such metadata."""
    said = ModelProto()
    said.CopyFrom(CLASSIFIER)
    for key, value in metadata.items():
        entry = said.metadata_props.add()
        entry.key, entry.value = key, value
    run(capsys, written(said, folder / "said.onnx"), "--out", folder)
    return net_of(folder / "said.cfg")


def test_an_export_says_how_pictures_are_prepared_and_outputs_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = imported_with(EXPORTED | EXPORT_MARKS, tmp_path, capsys)
    assert {key: net[key] for key in EXPORTED} == EXPORTED


def test_the_same_keys_of_another_program_are_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not EXPORTED.keys() & imported_with(EXPORTED, tmp_path, capsys).keys()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mean", "1,2"),
        ("std", "0"),
        ("std", "nan"),
        ("colors", "cmyk"),
        ("fill", "256"),
        ("resize", "bend"),
        ("decoder", "x\n[crop]"),
        ("anchors", "1\nnms=0.1"),
        ("nms", "high"),
    ],
)
def test_a_value_in_an_export_that_does_not_fit_is_left_out(
    key: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = imported_with(EXPORTED | EXPORT_MARKS | {key: value}, tmp_path, capsys)
    assert key not in net
    assert "mean" in net or "std" in net


def test_files_of_an_earlier_import_are_replaced_and_others_stay(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_model.cfg").write_text("old")
    (tmp_path / "other.txt").write_text("mine")
    run(capsys, model, "--out", tmp_path)
    assert (tmp_path / "my_model.cfg").read_text().startswith("# Imported from my model.onnx")
    assert (tmp_path / "other.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_made(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = run(capsys, model, "--out", model / "out")
    assert status == 2
    assert "cannot be written" in error


def test_nothing_is_written_for_a_model_that_cannot_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = written(model_of([node("LSTM", "x")]), tmp_path / "model.onnx")
    status, _, error = run(capsys, model, "--out", tmp_path / "out")
    assert status == 2
    assert "LSTM 'the_LSTM' cannot be imported: this operator is not supported" in error
    assert not (tmp_path / "out").exists()


def test_out_names_a_file(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(capsys, model, "--out", model)
    assert status == 2
    assert "is not a folder" in error


@pytest.mark.parametrize(
    "words",
    [
        ("--input-shape", "1,3,x,8"),
        ("--input-shape", "1,3,0,8"),
        ("--mean", "red"),
        ("--mean", "1,,3"),
        ("--std", "0"),
        ("--std", "1,nan,1"),
        ("--fill", "256"),
        ("--fill", "nan"),
        ("--colors", "grb"),
        ("--decoder", "yolo"),
    ],
)
def test_wrong_options(
    words: tuple[str, str], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(capsys, model, "--out", tmp_path / "out", *words)
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--input-shape", "1,3,8"), "the input has 4 axes, but the given shape has 3"),
        (("--mean", "1,2"), "my model.onnx: mean has 2 numbers, but the input has 3 channels"),
        (("--std", "1,2,3,4"), "my model.onnx: std has 4 numbers, but the input has 3 channels"),
    ],
)
def test_options_that_do_not_fit_the_model(
    words: tuple[str, str], message: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = run(capsys, model, "--out", tmp_path / "out", *words)
    assert status == 2
    assert message in error
    assert not (tmp_path / "out").exists()


def zipped(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return path


@pytest.mark.parametrize(
    ("content", "kind", "command"),
    [
        (b"\x0a\x05\x0a\x01x\x12\0\x0a\x05\x0a\x01y\x12\0", "frozen graphs", "tf2onnx.convert --graphdef"),
        (b"\x80\x02}q\0X\x05\0\0\0model", "PyTorch", "yolo export"),
        (b"ftrt\0\0\0\0" + bytes(100), "TensorRT", "yolo export"),
        (b'\x10\0\0\0{"description": "x", "task": "detect", "stride": 32}ftrt', "TensorRT", "yolo export"),
        (b"\x08\x05\x12\x40\x0a\x20\x0a\x05image\x12\x05pixel" + bytes(60), "Core ML", "torch.onnx.export"),
        (b"7767517\n75 83\nInput data 0 1 data\n", "ncnn", "torch.onnx.export"),
        (b"[net]\nwidth=3\n", "Darknet cfg already", "--cfg"),
        (b"hello", "text file", ""),
    ],
)  # fmt: skip
def test_other_formats_are_answered_with_the_command_that_exports_them(
    content: bytes, kind: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    status, _, error = run(capsys, path, "--out", tmp_path / "out")
    assert status == 2
    assert kind in error
    assert command in error


def test_models_that_are_archives_or_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, command in (
        (zipped(tmp_path / "model.pt", "archive/data.pkl"), "yolo export"),
        (tmp_path / "missing.onnx", "no such file"),
    ):
        assert command in run(capsys, path, "--out", tmp_path / "out")[2]


def test_the_order_of_a_models_fields_does_not_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = ModelProto(ir_version=CLASSIFIER.ir_version, opset_import=CLASSIFIER.opset_import)
    body = ModelProto(graph=CLASSIFIER.graph)
    path = tmp_path / "model.onnx"
    path.write_bytes(body.SerializeToString() + head.SerializeToString())
    assert run(capsys, path, "--out", tmp_path / "out")[0] == 0


def test_a_missing_package_is_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.importing.model.find_spec", lambda package: None)
    assert "pip install 'harness[import]'" in run(capsys, model, "--out", tmp_path / "out")[2]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("{0: 'a', 1: 'b'}", ("a", "b")),
        ('{"0": "a", "1": "b"}', ("a", "b")),
        ("['a\\n', 'b']", ("a", "b")),
        ("{1: 'a'}", ()),
        ("(" * 5000, ()),
        ("__import__('os')", ()),
        ("", ()),
    ],
)
def test_names_of_classes(written: str, names: tuple[str, ...]) -> None:
    assert names_of(written) == names


@pytest.mark.parametrize(
    ("written", "safe"),
    [
        ("/model.0/conv/Conv_output_0", "model.0/conv/Conv_output_0"),
        ("792", "t792"),
        ("-1", "t-1"),
        ("a b,c=[d];#", "a_b_c__d___"),
        ("größe", "gr__e"),
        ("", "tensor"),
        ("_x", "_x"),
    ],
)
def test_names_of_tensors_become_names_of_a_cfg(written: str, safe: str) -> None:
    assert safe_name(written) == safe
