"""TensorFlow's conversions inside the engine, on this machine and on an emulated board over SSH."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tiny_sweep import query, run, write_tiny_sweep

from harness.config.targets import load_target
from harness.images.availability import emulation_missing
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.sdk.wheel import tensorflow_sdk

pytestmark = pytest.mark.engine

# How many photographs an emulated board runs; 16 take some minutes.
PHOTOGRAPHS = int(os.environ.get("HARNESS_QUANTIZER_PHOTOGRAPHS", "2"))

TINY = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, dataset: data}]
policies: [{name: dynamic, default: int8, quantize: 1}]
targets: [host]
options: [{quantizer: builtin}, {quantizer: tensorflow}]
protocol: {warmup: 0, runs: 2, min_seconds: 0}
emulated: {images: 3}
"""


def test_both_quantizers_in_a_sweep(tmp_path: Path) -> None:
    sweep = write_tiny_sweep(tmp_path, TINY)
    builtin, by_tensorflow = run(sweep)["cells"]
    for cell in (builtin, by_tensorflow):
        assert cell["status"] == "done"
        assert 0 < cell["conversion_ms"] < 1000
        assert cell["digest_matches_host"] is True
    # TensorFlow is there, and where it was asked for only.
    assert by_tensorflow["peak_rss_bytes"] > 100e6 > builtin["peak_rss_bytes"]
    assert query(sweep, "SELECT count(*) FROM layers WHERE conversion_ns > 0") == [(6,)]


BRANCHES = """\
[net]
width=32
height=24
channels=3
[convolutional]
filters=16
size=3
pad=1
activation=leaky
int8=1
[convolutional]
filters=8
size=1
activation=leaky
int8=1
[route]
layers=-2
[convolutional]
filters=8
size=3
pad=1
activation=linear
fp32=1
quantize=1
[route]
layers=-4
[convolutional]
filters=8
size=1
activation=linear
fp16=1
quantize=1
[route]
layers=-5,-3,-1
[convolutional]
filters=4
size=1
activation=linear
int8=1
quantize=1
"""
KERNELS = 16 + 16 * 27 + 8 + 8 * 16 + 8 + 8 * 16 * 9 + 8 + 8 * 16 + 4 + 4 * 24


def test_float_layers_that_read_int8_have_tensorflow_dequantise_it(
    host_engine: HostEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    cfg, weights, ranges = (tmp_path / name for name in ("net.cfg", "net.weights", "ranges.json"))
    cfg.write_text(BRANCHES)
    weights.write_bytes(
        np.array([0, 2, 0], "<i4").tobytes() + bytes(8) + rng.normal(0, 0.2, KERNELS).astype("<f4").tobytes()
    )
    tensors = [{"layer": layer, "min": -3.0, "max": 4.0} for layer in range(-1, 8)]
    network = {"layers": 8, "input": [3, 24, 32]}
    ranges.write_text(
        json.dumps({"format": "mpe-calibration", "version": 1, "network": network, "tensors": tensors})
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tensorflow_sdk(load_target("host")).folder / "lib"))
    images = rng.integers(0, 256, (3, 24, 32, 3), dtype=np.uint8)
    found = []
    for name in ("builtin", "tensorflow"):
        options = EngineOptions(calibration=ranges, quantizer=name)
        found.append(host_engine.forward(cfg, weights, images, options, digest=True).digests)
        rows = host_engine.bench(cfg, weights, options, warmup=0, runs=1, profile=True)["layers"]
        converted = {row["index"]: row["executed"] for row in rows if row["conversion_ns"] > 0}
        # The input for layer 0; for 3 and 5 the int8 tensor that layer 1 reads; for 7 what they have made.
        assert converted == {0: "int8", 3: "fp32", 5: "fp16", 7: "int8"}
    assert found[0] == found[1]


def test_without_libtensorflow_the_error_says_what_to_do(host_engine: HostEngine, tmp_path: Path) -> None:
    write_tiny_sweep(tmp_path, "")
    words: list[str | Path] = [host_engine.executable, "bench", "--cfg", tmp_path / "tiny.cfg"]
    words += ["--weights", tmp_path / "tiny.weights", "--quantizer", "tensorflow"]
    broken = tmp_path / "libtensorflow_cc.so.2"
    for damage, reason in ((b"no library" * 20, "invalid ELF header"), (b"", "file too short")):
        broken.write_bytes(damage)
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        )
        assert done.returncode == 2
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("mpe: the quantizer tensorflow needs libtensorflow")
        assert reason in line
        assert "LD_LIBRARY_PATH" in line


@pytest.mark.emulation
def test_an_emulated_board_gives_the_same_bits_with_both(shared_data: Path, tmp_path: Path) -> None:
    if missing := emulation_missing(load_target("pi4")):
        pytest.skip("; ".join(missing))
    tensorflow_sdk(load_target("pi4"))
    model = shared_data / "models" / "yolo-fastest-1.1" / "yolo-fastest-1.1"
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(
        f"models: [{{name: net, cfg: {model}.cfg, weights: {model}.weights, "
        f"dataset: {shared_data / 'coco-val128'}, limit: 1}}]\n"
        "policies: [{name: dynamic, default: int8, quantize: 1}]\ntargets: [pi4]\n"
        "options: [{quantizer: builtin}, {quantizer: tensorflow}]\n"
        f"emulated: {{warmup: 0, images: {PHOTOGRAPHS}}}\n"
    )
    builtin, by_tensorflow = run(sweep)["cells"]
    assert (builtin["status"], by_tensorflow["status"]) == ("done", "done")
    assert builtin["digest"] == by_tensorflow["digest"]
    assert builtin["digest_matches_host"] is by_tensorflow["digest_matches_host"] is True
    assert by_tensorflow["peak_rss_bytes"] > 100e6 > builtin["peak_rss_bytes"]
