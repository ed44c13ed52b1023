"""The commands of `mpe` as a user or the harness calls them: JSON, files, messages and statuses."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_tests import ENGINE

from harness.config.random_weights import write_random_weights
from harness.runtimes.engine import EngineOptions, HostEngine

pytestmark = pytest.mark.engine

SHARED_CFGS = [
    *("alexnet", "darknet19", "efficientnet-lite3", "efficientnet_b0", "enet-coco", "resnet50", "tiny"),
    *(
        "vgg-16",
        "yolov2-tiny",
        "yolov3",
        "yolov3-tiny",
        "yolov3-tiny-prn",
        "yolov4",
        "yolov4-tiny",
        "yolov7-tiny",
    ),
]

CFG = """[net]
width=16
height=16
channels=3

[convolutional]
filters=6
size=3
pad=1
activation=leaky

[yolo]
mask=0
num=1
classes=1
anchors=1,1

[route]
layers=0

[convolutional]
filters=4
activation=mish
"""


class Model:
    """A small network with two heads and its random weights, beside an engine."""

    def __init__(self, engine: HostEngine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.cfg = folder / "net.cfg"
        self.weights = folder / "net.weights"
        self.cfg.write_text(CFG)
        write_random_weights(self.weights, engine.info(self.cfg)["layers"], seed=1)

    def command(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [str(self.engine.executable), *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    def call(self, name: str, *words: str | Path) -> dict[str, Any]:
        done = self.command(name, "--cfg", self.cfg, "--weights", self.weights, *words)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def failure(self, *words: str | Path) -> str:
        """The message of a command that must fail with one line and nothing on stdout."""
        done = self.command(*words)
        assert done.returncode > 0
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("mpe: ")
        return lines[0]

    def save(self, images: np.ndarray[Any, Any]) -> Path:
        path = self.folder / "input.npy"
        np.save(path, images)
        return path


@pytest.fixture
def model(host_engine: HostEngine, tmp_path: Path) -> Model:
    return Model(host_engine, tmp_path)


def test_bench_gives_every_sample_and_a_row_for_each_layer(model: Model) -> None:
    bench = model.call("bench", "--runs", "5", "--warmup", "1", "--threads", "2", "--profile", "--mark")
    assert len(bench["samples_ns"]) == 5
    assert bench["min_ns"] == min(bench["samples_ns"])
    assert bench["median_ns"] == sorted(bench["samples_ns"])[2]
    assert bench["threads"] == 2
    assert bench["arena_bytes"] > 0
    assert bench["weight_bytes"] > 4 * (6 * 27 + 6 + 4 * 6 + 4)
    assert bench["peak_rss_bytes"] > bench["arena_bytes"]
    rows = bench["layers"]
    assert [row["type"] for row in rows] == ["convolutional", "yolo", "route", "convolutional"]
    assert {"index", "type", "precision", "executed", "isa", "algorithm", "ns", "bytes"} <= set(rows[0])
    assert rows[0]["bytes"] > 0
    assert rows[0]["ns"] > 0
    assert rows[2]["bytes"] == 0  # a route of one layer is only another name for it


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_scratch_makes_the_arena_a_quarter_larger_at_most(
    host_engine: HostEngine, tmp_path: Path, precision: str, threads: int
) -> None:
    plain = Path(__file__).resolve().parents[2] / "cfg" / "yolov3-tiny" / "yolov3-tiny.cfg"
    cfg = tmp_path / "network.cfg"
    asked = {"fp32": 0, "fp16": 0} | {precision: 1}
    text = plain.read_text().replace("fp32=1\nfp16=0\n", "".join(f"{k}={v}\n" for k, v in asked.items()))
    cfg.write_text(text)
    weights = tmp_path / "random.weights"
    write_random_weights(weights, host_engine.info(cfg)["layers"], seed=1)
    options = EngineOptions(threads=threads)
    bench = host_engine.bench(cfg, weights, options, warmup=0, runs=1, profile=True)
    rows = [row for row in bench["layers"] if row["type"] == "convolutional"]
    assert {row["executed"] for row in rows} == {precision}
    assert "winograd4" in {row["algorithm"] for row in rows}
    assert bench["live_bytes"] < bench["arena_bytes"] <= 1.25 * bench["live_bytes"]
    small = host_engine.bench(cfg, weights, replace(options, prefer="memory"), warmup=0, runs=1)
    assert small["arena_bytes"] <= bench["arena_bytes"]


def test_bench_goes_on_until_the_seconds_are_over(model: Model) -> None:
    started = time.monotonic()
    bench = model.call("bench", "--runs", "1", "--warmup", "0", "--min-seconds", "0.2")
    assert time.monotonic() - started >= 0.2
    assert len(bench["samples_ns"]) > 10  # of some microseconds each


def test_the_plain_loops_can_be_forced(model: Model) -> None:
    rows = model.call("bench", "--runs", "1", "--algorithm", "reference", "--profile")["layers"]
    assert {row["algorithm"] for row in rows if row["type"] == "convolutional"} == {"reference"}
    assert model.call("bench", "--runs", "1", "--isa", "reference")["isa"] == "reference"


def test_forward_writes_heads_and_the_digest_of_their_bytes(model: Model) -> None:
    images = np.random.default_rng(1).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    result = model.call(
        *("forward", "--input", model.save(images), "--heads", model.folder / "heads", "--digest"),
        *("--layers", model.folder / "layers"),
    )
    assert result["images"] == 3
    assert result["head_layers"] == [0, 3]
    heads = [np.load(path) for path in result["heads"]]
    assert [Path(path).name for path in result["heads"]] == ["head_000.npy", "head_003.npy"]
    assert [head.shape for head in heads] == [(3, 6, 16, 16), (3, 4, 16, 16)]
    for image in range(3):
        digest = hashlib.sha256(b"".join(head[image].astype("<f4").tobytes() for head in heads))
        assert result["digests"][image] == digest.hexdigest()
    layers = sorted(path.name for path in (model.folder / "layers").iterdir())
    assert layers == [f"layer_{index:03d}.npy" for index in range(4)]
    for head, layer in zip(heads, ("layer_000.npy", "layer_003.npy"), strict=True):
        assert np.array_equal(head, np.load(model.folder / "layers" / layer))

    as_floats = (images.astype(np.float32) / np.float32(255)).transpose(0, 3, 1, 2)
    again = model.call("forward", "--input", model.save(np.ascontiguousarray(as_floats)), "--digest")
    assert again["digests"] == result["digests"]
    assert again["heads"] == []


def test_a_forward_that_fails_midway_leaves_no_heads(model: Model) -> None:
    images = np.zeros((2, 3, 16, 16), np.float32)
    images[1, 0, 0, 0] = np.nan
    folder = model.folder / "heads"
    words = ("--weights", model.weights, "--input", model.save(images), "--heads", folder)
    assert "not finite" in model.failure("forward", "--cfg", model.cfg, *words)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "info, bench, forward or caps"),
        (["bnech"], "'bnech'"),
        (["bench", "--cfg", "absent.cfg", "--weights", "w"], "absent.cfg"),
        (["bench", "--cfg", "net.cfg", "--weights", "net.cfg"], "net.cfg"),
        (["bench", "--cfg", "net.cfg", "--weights", "net.weights", "--runs", "0"], "--runs"),
        (["bench", "--cfg", "net.cfg", "--weights", "net.weights", "--isa", "mmx"], "'mmx'"),
        (["bench", "--cfg", "net.cfg", "--weights", "net.weights", "--algorithm", "x"], "'x'"),
        (
            ["bench", "--cfg", "net.cfg", "--weights", "net.weights", "--algorithm", "plain"],
            "`harness build --with ablation`",
        ),
        (["bench", "--cfg", "net.cfg", "--weights", "net.weights", "--wramup", "1"], "'--warmup'"),
        (["forward", "--cfg", "net.cfg", "--weights", "net.weights", "--input", "net.cfg"], "net.cfg"),
        (["caps", "--all"], "no options"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_mistakes_are_one_line_with_a_status(
    model: Model, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    monkeypatch.chdir(model.folder)
    assert expected in model.failure(*words)


def test_int8_without_calibration_names_what_makes_one(model: Model) -> None:
    model.cfg.write_text(CFG.replace("activation=mish", "activation=mish\nint8=1"))
    message = model.failure("bench", "--cfg", model.cfg, "--weights", model.weights)
    assert "harness calibrate" in message
    assert "layer 3" in message


def test_caps_names_the_best_set_and_its_kernels(model: Model) -> None:
    caps = json.loads(model.command("caps").stdout)
    assert caps["best"] in [entry["isa"] for entry in caps["sets"] if entry["supported"]]
    assert 0 < caps["caches"]["resident_bytes"] < caps["caches"]["second_bytes"]
    for kind in ("convolutional", "depthwise", "connected"):
        precisions = {row["precision"] for row in caps["kernels"] if row["type"] == kind}
        assert precisions == {"fp32", "fp16", "int8"}
    assert model.call("bench", "--runs", "1")["isa"] == caps["best"]


@pytest.mark.parametrize("name", ["graph", "deconvolution"])
def test_layers_of_all_kinds_have_random_weights(host_engine: HostEngine, tmp_path: Path, name: str) -> None:
    cfg = ENGINE / "tests" / "fuzz" / "corpus" / "cfg" / f"{name}.cfg"
    info = host_engine.info(cfg)
    write_random_weights(tmp_path / "w", info["layers"], seed=1)
    assert (tmp_path / "w").stat().st_size == info["weights_bytes"]
    image = np.random.default_rng(1).random((1, *info["input"]), np.float32)
    heads = host_engine.forward(cfg, tmp_path / "w", image).heads
    assert all(np.isfinite(head).all() for head in heads.values())


@pytest.mark.data
@pytest.mark.parametrize("name", SHARED_CFGS)
def test_popular_networks_run_with_random_weights(
    host_engine: HostEngine, shared_data: Path, tmp_path: Path, name: str
) -> None:
    cfg = shared_data / "cfgs" / f"{name}.cfg"
    info = host_engine.info(cfg)
    write_random_weights(tmp_path / "w", info["layers"], seed=1)
    assert (tmp_path / "w").stat().st_size == info["weights_bytes"]
    image = np.random.default_rng(1).random((1, *info["input"]), np.float32)
    heads = host_engine.forward(cfg, tmp_path / "w", image, EngineOptions(threads=2)).heads
    assert heads
    for layer, head in heads.items():
        assert head.shape == (1, *info["layers"][layer]["out"])
        assert np.isfinite(head).all()
        assert head.std() > 0
    (tmp_path / "w").unlink()
