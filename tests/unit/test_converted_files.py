"""Exports by the runtimes' own converters: files, names and refusals. The converters are replaced."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from exported_models import write_random
from networks import CLASSIFIER

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
        ("mnn", "is int8, which MNN's converter does not read"),
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
