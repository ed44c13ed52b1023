"""Files that are no cfg or no weights, told by their content before anything is built."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from networks import CLASSIFIER, DETECTOR
from PIL import Image

from harness import cli
from harness.config.darknet_cfg import parse_cfg, read_cfg
from harness.config.file_kind import expect_weights, kind_of
from harness.config.model_files import check_calibration, check_model, check_weights
from harness.errors import ConfigurationError


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return buffer.getvalue()


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, kind)
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("net.cfg"))
    return buffer.getvalue()


def array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


# The beginnings of files; those of the larger formats as their own writers make them.
KINDS: Mapping[str, bytes] = {
    "an ONNX model": b"\x08\x07\x12\x0cPaddlePaddle:\xa2\xde#\x00",
    "a TensorFlow Lite model": b"\x1c\0\0\0TFL3\x14\0 \0\x04\0",
    "an HDF5 file, as Keras writes its models": b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0",
    "a Keras model": zipped(config_dot_json=b"{}", model_dot_weights_dot_h5=b""),
    "a PyTorch model": zipped(archive__data_dot_pkl=b"\x80\x02", archive__version=b"3"),
    "a ZIP archive": zipped(README=b"hello"),
    "a Python pickle, as old PyTorch models are": pickle.dumps({"a": [1.5] * 9}, protocol=2),
    "a safetensors file": struct.pack("<Q", 60) + b'{"__metadata__":{"format":"pt"}}',
    "a TensorFlow SavedModel": b"\x08\x01\x12\xb0\xc2\x08\x0a\x1d\x12\x05serve",
    "an ncnn model (.param)": b"7767517\n75 83\nInput data 0 1 data 0=227\n",
    "a Caffe model": b'# a comment\nname: "SqueezeNet"\ninput: "data"\nlayer {\n  name: "conv1"\n}\n',
    "an OpenVINO model": b'<?xml version="1.0"?>\n<net name="net" version="11">\n',
    "an HTML page": b"\n<!DOCTYPE html>\n<html lang=en>",
    "a JSON file": json.dumps({"format": "mpe-calibration"}).encode(),
    "a PNG picture": picture("PNG"),
    "a JPEG picture": picture("JPEG"),
    "a BMP picture": picture("BMP"),
    "a TIFF picture": picture("TIFF"),
    "a WebP picture": picture("WEBP"),
    "a GIF picture": picture("GIF"),
    "a gzip archive": b"\x1f\x8b\x08\0\0\0\0\0",
    "an xz archive": b"\xfd7zXZ\0\0\x04",
    "a tar archive": tarred(),
    "a NumPy array": array(),
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n",
    "a binary file": b"\x02\x03\x04\0\x05\x06",
}


@pytest.mark.parametrize(("name", "data"), KINDS.items(), ids=[name.split()[1] for name in KINDS])
def test_other_files_are_told_by_their_content(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "net.cfg"
    path.write_bytes(data)
    found = kind_of(path)
    assert found is not None
    assert found.name == name
    with pytest.raises(ConfigurationError) as caught:
        read_cfg(path)
    assert caught.value.message == f"{path}: is {name}; harness reads Darknet cfg files"
    assert caught.value.hint
    if name != "a binary file":  # which weights are, too
        with pytest.raises(ConfigurationError, match=r"; harness reads Darknet weights files"):
            expect_weights(path)


@pytest.mark.parametrize(
    "cfg", [DETECTOR, CLASSIFIER, "\n\n" + DETECTOR, "\ufeff[net]\n", "; one\n# two\n[ net ]\n"]
)
def test_a_cfg_is_told_also_behind_comments(tmp_path: Path, cfg: str) -> None:
    path = tmp_path / "renamed.onnx"
    path.write_text(cfg)
    found = kind_of(path)
    assert found is not None
    assert found.name == "a Darknet cfg file"
    with pytest.raises(
        ConfigurationError, match=r"is a Darknet cfg file; .*\n  Are the cfg and the weights swapped"
    ):
        expect_weights(path)


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert kind_of(tmp_path / "pipe") is None


def weights(folder: Path, header: int, cfg: str = DETECTOR) -> Path:
    parameters = sum(layer.parameters or 0 for layer in parse_cfg(cfg, "net.cfg").layers)
    path = folder / "net.weights"
    path.write_bytes(struct.pack("<iii", 0, 2, 5) + bytes(header - 12 + 4 * parameters))
    return path


def test_weights_have_the_size_that_the_cfg_takes(tmp_path: Path) -> None:
    network = parse_cfg(DETECTOR, "net.cfg")
    for header in (16, 20):
        check_weights(network, weights(tmp_path, header))
    path = weights(tmp_path, 20)
    with path.open("ab") as file:
        file.write(b"\0\0\0\0")
    with pytest.raises(
        ConfigurationError, match=r"net\.weights: has \d+ bytes, but net\.cfg needs \d+ \(\d+ with"
    ):
        check_weights(network, path)
    with pytest.raises(ConfigurationError, match=r"gone\.weights: no such file"):
        check_weights(network, tmp_path / "gone.weights")


def test_how_many_weights_connected_layers_have_is_left_to_the_engine(tmp_path: Path) -> None:
    check_weights(parse_cfg(CLASSIFIER, "net.cfg"), weights(tmp_path, 20, CLASSIFIER))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a calibration file: it is not JSON"),
        ("[]", 'not a calibration file: it has no "format"'),
        ("[" * 100_000, "not a calibration file: it is not JSON"),
        (
            '{"format": "mpe-calibration", "network": {"layers": 3}}',
            "was recorded on 3 layers, but net.cfg has 13",
        ),
    ],
)
def test_calibration_files_belong_to_the_cfg(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        check_calibration(parse_cfg(DETECTOR, "net.cfg"), path)


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "--dataset", "data"],
        ["detect", "dog.jpg"],
        ["calibrate", "--dataset", "data", "--out", "out.json"],
        ["repair", "--dataset", "data", "--out", "out"],
        ["predict", "--target", "pi4"],
    ],
    ids=lambda words: words[0],
)
def test_commands_look_at_the_model_before_they_build_an_engine(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_engine(*_: object, **__: object) -> None:
        pytest.fail("an engine was built")

    monkeypatch.setattr("harness.build.engine.build_engine", build_engine)
    monkeypatch.chdir(tmp_path)
    Path("model").write_bytes(KINDS["an ONNX model"])
    Path("net.cfg").write_text(DETECTOR)
    Path("net.weights").write_bytes(b"")
    Path("typo.cfg").write_text(DETECTOR.replace("activation=", "activaton=", 1))
    for cfg, given, said in (
        (
            "typo.cfg",
            "net.weights",
            "[convolutional] there is no key 'activaton'; did you mean 'activation'?",
        ),
        ("model", "net.weights", "model: is an ONNX model; harness reads Darknet cfg files"),
        ("net.cfg", "model", "model: is an ONNX model; harness reads Darknet weights files"),
        ("net.cfg", "net.weights", "net.weights: has 0 bytes, but net.cfg needs"),
        ("net.cfg", "gone.weights", "gone.weights: no such file"),
    ):
        assert cli.main([*words, "--cfg", cfg, "--weights", given]) == 2
        assert said in capsys.readouterr().err


def test_a_model_is_checked_with_its_ranges(tmp_path: Path) -> None:
    (tmp_path / "net.cfg").write_text(DETECTOR)
    (tmp_path / "ranges.json").write_text('{"format": "mpe-calibration", "network": {"layers": 13}}')
    found = check_model(tmp_path / "net.cfg", weights(tmp_path, 20), tmp_path / "ranges.json")
    assert len(found.layers) == 13
