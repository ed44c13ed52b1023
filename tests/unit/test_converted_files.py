"""Exports by the runtimes' own converters: files, names and refusals. The converters are replaced."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from exported_models import write_random
from networks import CLASSIFIER
from PIL import Image

from harness import cli
from harness.runtimes.mnn_runtime import MnnRuntime
from harness.runtimes.ncnn_runtime import NcnnRuntime
from harness.runtimes.on_board.ncnn_file import packed

GRAPH = """7767517
3 4
Input in0 0 1 in0
Convolution out1 1 1 in0 out1 0=10
Split splitncnn_0 1 2 out1 out0 7
"""


def export(folder: Path, name: str, *words: str) -> int:
    cfg, weights = write_random(folder, CLASSIFIER)
    model = ["--cfg", str(cfg), "--weights", str(weights)]
    return cli.main(["export", "--format", name, *model, "--out", str(folder / "out"), *words])


def test_ncnn_gets_the_names_of_inputs_and_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(_: object, __: Path, converted: Path) -> None:
        converted.write_bytes(packed(b"weights", GRAPH, [[3, 8, 8]]))

    monkeypatch.setattr(NcnnRuntime, "convert", convert)
    assert export(tmp_path, "ncnn") == 0
    graph = (tmp_path / "out" / "net.param").read_text().splitlines()
    assert graph[2:] == [
        "Input in0 0 1 input",
        "Convolution out1 1 1 input head_3 0=10",
        "Split splitncnn_0 1 2 head_3 head_2 7",
    ]
    assert (tmp_path / "out" / "net.bin").read_bytes() == b"weights"
    said = json.loads((tmp_path / "out" / "net.metadata.json").read_text())
    assert said["policy"] == "as-is"


@pytest.mark.parametrize(("policy", "name"), [("fp32", "model.mnn"), ("fp16", "model.fp16.mnn")])
def test_mnn_computes_fp16_if_the_policy_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, name: str
) -> None:
    monkeypatch.setattr(MnnRuntime, "convert", lambda _, __, to: to.write_bytes(to.name.encode()))
    assert export(tmp_path, "mnn", "--policy", policy) == 0
    assert (tmp_path / "out" / "net.mnn").read_text() == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mnn", "is int8 with quantize=1, but MNN's quantiser mixes none but int8 with quantize=0 and fp32"),
        ("ncnn", "is int8 with quantize=1, but ncnn does not measure ranges at run time"),
    ],
)
def test_int8_is_refused_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    assert export(tmp_path, name, "--policy", "{default: int8, quantize: 1}") != 0
    said = capsys.readouterr().err
    assert re.search(rf"net\.cfg:[0-9]+: layer 0 \(convolutional\) {reason}", said)
    assert not list((tmp_path / "out").glob("*"))


def test_mnn_does_not_mix_int8_with_fp16(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = "{default: fp16, layers: {first: int8}}"
    assert export(tmp_path, "mnn", "--policy", policy) != 0
    assert "layer 2 (connected) is fp16, but MNN's quantiser mixes none" in capsys.readouterr().err


def test_mnns_quantiser_needs_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(tmp_path, "mnn", "--policy", "int8") != 0
    said = capsys.readouterr().err
    assert "layer 0 (convolutional) is int8 with quantize=0: MNN's quantiser records ranges" in said
    assert "--dataset" in said


def test_mnns_quantiser_gets_pictures_and_the_names_of_layers_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[object] = []

    def quantise(_: object, source: Path, made: Path, pictures: Path, in_float: list[str]) -> None:
        nodes = onnx.load(str(source)).graph.node
        assert not {node.op_type for node in nodes} & {"QuantizeLinear", "DequantizeLinear"}
        assert set(in_float) < {name for node in nodes for name in node.output}
        found.extend([np.load(pictures).shape, in_float])
        made.write_bytes(b"quantised")

    monkeypatch.setattr(MnnRuntime, "quantise", quantise)
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        Image.new("L", (9, 7), 80 * number).save(tmp_path / "pictures" / f"{number}.png")
    policy = "{default: int8, layers: {last: fp32}}"
    words = ["--policy", policy, "--dataset", str(tmp_path / "pictures"), "--limit", "2"]
    assert export(tmp_path, "mnn", *words) == 0
    assert found == [(2, 1, 8, 8), ["head_2"]]
    assert (tmp_path / "out" / "net.mnn").read_bytes() == b"quantised"
    assert "layers with weights: 1 in fp32, 1 in int8" in capsys.readouterr().out
