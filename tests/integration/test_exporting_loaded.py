"""Files of `harness export` in the runtimes that they are written for, against the engine: the same heads."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness import cli
from harness.boards.host import HostBoard
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import apply
from harness.config.policy_file import read_policy
from harness.config.targets import load_target
from harness.resources import resource
from harness.runtimes.engine import HostEngine
from harness.runtimes.mnn_runtime import MnnRuntime
from harness.runtimes.ncnn_network import read_network
from harness.runtimes.ncnn_runtime import NcnnRuntime
from harness.runtimes.on_board.ncnn_file import packed
from harness.runtimes.python_program import ISOLATED, program_file, python_of
from harness.runtimes.python_runtime import PythonRuntime
from harness.sdk.packages import UNPACKED, archive_for

pytestmark = pytest.mark.engine

Floats = npt.NDArray[np.float32]
Heads = Mapping[str, Floats]


def in_its_runtime(runtime: PythonRuntime, model: Path, picture: Floats, names: list[str]) -> Heads:
    """The outputs with these names, by the program that runs on boards."""
    np.save(model.with_name("inputs.npy"), picture)
    with HostBoard(load_target("host")) as board:
        python = python_of(board)
        packages = str(archive_for(runtime.packages, python.python)) + UNPACKED
        argv = [*python.command, *ISOLATED, str(program_file()), "outputs", "--packages", packages]
        argv += ["--session", runtime.session, "--model", str(model), "--folder", str(model.parent)]
        argv += ["--inputs", str(model.with_name("inputs.npy")), *(f"--output={name}" for name in names)]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return {name: np.load(model.with_name(f"{place}.npy")) for place, name in enumerate(names)}


def in_mnn(folder: Path, picture: Floats, names: list[str]) -> Heads:
    return in_its_runtime(MnnRuntime(), folder / "digits.mnn", picture, names)


def in_ncnn(folder: Path, picture: Floats, names: list[str]) -> Heads:
    """The program's session has both files in one."""
    one = folder / "digits.one"
    graph, weights = (folder / "digits.param").read_text(), (folder / "digits.bin").read_bytes()
    one.write_bytes(packed(weights, graph, [list(picture.shape)]))
    return in_its_runtime(NcnnRuntime(), one, picture, names)


def in_tensorflow(folder: Path, picture: Floats, names: list[str]) -> Heads:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tensorflow: Any = pytest.importorskip("tensorflow")
    function = tensorflow.saved_model.load(str(folder / "digits")).signatures["serving_default"]
    found = function(input=tensorflow.constant(picture.transpose(0, 2, 3, 1)))
    assert sorted(found) == sorted(names)
    return {name: values.numpy().transpose(0, 3, 1, 2) for name, values in found.items()}


@pytest.mark.parametrize(
    ("kind", "policy", "load", "tolerance"),
    [
        ("saved-model", "fp32", in_tensorflow, 1e-5),
        ("mnn", "fp32", in_mnn, 1e-4),
        ("mnn", "fp16", in_mnn, 5e-3),
        ("ncnn", "fp32", in_ncnn, 1e-5),
        ("ncnn", "fp16", in_ncnn, 5e-3),
    ],
)
def test_a_file_computes_the_heads_of_the_engine(
    kind: str,
    policy: str,
    load: Callable[[Path, Floats, list[str]], Heads],
    tolerance: float,
    tmp_path: Path,
    host_engine: HostEngine,
) -> None:
    """Of the trained network that ships with the project, within a share of the largest value."""
    cfg = resource("cfg", "digits", "digits.cfg")
    weights = cfg.with_suffix(".weights")
    words = ["--cfg", str(cfg), "--weights", str(weights), "--policy", policy, "--format", kind]
    assert cli.main(["export", *words, "--out", str(tmp_path), "--quiet"]) == 0
    outputs = json.loads(json.loads((tmp_path / "digits.metadata.json").read_text())["outputs"])
    changed = tmp_path / "changed.cfg"
    changed.write_text(apply(read_policy(policy), cfg.read_text()))
    shape = tuple(host_engine.info(cfg)["input"])
    picture = np.random.default_rng(2).random((1, *shape), np.float32)
    heads = host_engine.forward(changed, weights, picture).heads
    found = load(tmp_path, picture, [output["name"] for output in outputs])
    assert set(heads) == {output["layer"] for output in outputs}
    for output in outputs:
        expected = heads[output["layer"]]
        worst = float(np.abs(found[output["name"]].reshape(expected.shape) - expected).max())
        assert worst <= tolerance * float(np.abs(expected).max()), (output["name"], worst)


def test_ncnn_multiplies_integers(tmp_path: Path, host_engine: HostEngine) -> None:
    """The heads, which have no activation, are whole numbers of steps above the bias."""
    cfg = resource("cfg", "digits", "digits.cfg")
    weights, ranges = cfg.with_suffix(".weights"), cfg.with_suffix(".calibration.json")
    words = ["--cfg", str(cfg), "--weights", str(weights), "--policy", "int8", "--calibration", str(ranges)]
    assert cli.main(["export", *words, "--format", "ncnn", "--out", str(tmp_path), "--quiet"]) == 0
    picture = np.random.default_rng(2).random((1, *host_engine.info(cfg)["input"]), np.float32)
    heads = host_engine.forward(cfg, weights, picture).heads
    found = in_ncnn(tmp_path, picture, [f"head_{layer}" for layer in heads])
    operators = read_network((tmp_path / "digits.param").read_text(), (tmp_path / "digits.bin").read_bytes())
    table = (tmp_path / "digits.table").read_text().splitlines()
    assert len(table) == 2 * sum(operator.kind == "Convolution" for operator in operators)
    for layer, expected in heads.items():
        values = found[f"head_{layer}"].reshape(expected.shape[1:])
        (operator,) = (each for each in operators if f"head_{layer}" in each.outputs)
        _, bias, scales, given = operator.numbers
        steps = (values - bias.reshape(-1, 1, 1)) * scales.reshape(-1, 1, 1) * given
        assert np.abs(steps - np.rint(steps)).max() < 0.05
        assert np.abs(steps).max() > 1000
        error = np.linalg.norm(values - expected[0]) / np.linalg.norm(expected)
        assert error < 0.15


def test_a_tensorflow_lite_file_is_imported_again(tmp_path: Path, host_engine: HostEngine) -> None:
    """cfg to TensorFlow Lite to cfg: the same values. The heads of the file have their channels last."""
    cfg = resource("cfg", "digits", "digits.cfg")
    words = ["--cfg", str(cfg), "--weights", str(cfg.with_suffix(".weights")), "--policy", "fp32"]
    assert cli.main(["export", *words, "--format", "tflite", "--out", str(tmp_path), "--quiet"]) == 0
    again = tmp_path / "again" / "digits.cfg"
    assert cli.main(["import", str(tmp_path / "digits.tflite"), "--out", str(again.parent), "--quiet"]) == 0
    stated = json.loads(again.with_suffix(".import.json").read_text())["outputs"]
    picture = np.random.default_rng(2).random((1, *host_engine.info(cfg)["input"]), np.float32)
    before = host_engine.forward(cfg, cfg.with_suffix(".weights"), picture).heads
    after = host_engine.forward(again, again.with_suffix(".weights"), picture).heads
    assert {output["name"] for output in stated} == {f"head_{layer}" for layer in before}
    sections = {layer.given_name: layer.index for layer in read_cfg(again).layers}
    for output in stated:
        found = after[sections[output["section"]]]
        expected = before[int(output["name"].removeprefix("head_"))].transpose(0, 2, 3, 1)
        worst = float(np.abs(found.reshape(expected.shape) - expected).max())
        assert worst <= 1e-6 * float(np.abs(expected).max()), (output["name"], worst)
