"""harness predict: one network, and coefficients fitted to measured times."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_sweep import run as run_sweep
from tiny_sweep import write_tiny_sweep

from harness import cli
from harness.boards.qemu_user import qemu_user_missing
from harness.prediction.llvm import find_llvm

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
NETWORK = ["--cfg", str(DIGITS / "digits.cfg"), "--weights", str(DIGITS / "digits.weights")]


@pytest.fixture(scope="module", autouse=True)
def emulation() -> None:
    if missing := qemu_user_missing():
        pytest.skip("; ".join(missing))
    if find_llvm() is None:
        pytest.skip("needs llvm-mca")


def predict(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main(["predict", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_network_is_predicted_with_its_layers_and_the_same_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*NETWORK, "--target", "pi4", "--target", "pi5", "--threads", "1", "--threads", "4"]
    one, four, *newer = predict(capsys, *words)["predictions"]
    assert (one["target"], one["threads"], four["target"], four["threads"]) == ("pi4", 1, "pi4", 4)
    assert [(row["target"], row["threads"]) for row in newer] == [("pi5", 1), ("pi5", 4)]
    assert newer[0]["predicted_ms"] < one["predicted_ms"]
    assert one["predicted_low_ms"] < one["predicted_ms"] < one["predicted_high_ms"]
    assert one["predicted_ms"] == pytest.approx(one["compute_ms"] + one["memory_ms"])
    assert one["compute_ms"] / 4 < four["compute_ms"] < one["compute_ms"] / 3
    assert one["bytes_moved"] / 2 < four["bytes_moved"] < one["bytes_moved"]  # weights on the fly
    assert four["prediction_validated"]  # from the work of each thread
    assert sum(layer["predicted_ms"] for layer in four["layers"]) == pytest.approx(
        four["predicted_ms"], rel=0.02
    )
    layers = [layer["predicted_ms"] for layer in one["layers"]]
    assert len(layers) == 24
    assert sum(layers) == pytest.approx(one["predicted_ms"], rel=0.02)
    heaviest = max(one["layers"], key=lambda layer: layer["predicted_ms"])
    assert heaviest["type"] == "convolutional"
    assert heaviest["multiply_adds_per_second"] > 1e9
    assert 0.1 < heaviest["peak_fraction"] < 4  # Winograd's algorithm multiplies a quarter
    parts = {part: heaviest[f"{part}_ms"] for part in ("compute", "activation", "conversion", "memory")}
    assert sum(parts.values()) == pytest.approx(heaviest["predicted_ms"])
    assert heaviest["bound"] == max(parts, key=parts.__getitem__)
    assert all(part > 0 for part in parts.values())
    again = predict(capsys, *words)["predictions"]
    assert again[0]["predicted_ms"] == pytest.approx(one["predicted_ms"], rel=0.001)


@pytest.mark.data
def test_a_signal_ends_what_is_profiled(shared_data: Path) -> None:
    """The network takes seconds on each board."""
    model = shared_data / "import" / "nanodet-m-416" / "nanodet_m_416.onnx"
    words = ["predict", "--quiet", "--model", str(model), "--target", "pi4", "--target", "pi5"]
    process = subprocess.Popen([sys.executable, "-m", "harness", *words], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not profiled():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.terminate()
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (143, "harness: ended by SIGTERM\n")
    assert not profiled()


def profiled() -> list[str]:
    """The processes that run the network."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"--mark" in words and any(word.endswith(b"nanodet_m_416.cfg") for word in words):
                found.append(path.parent.name)
    return found


def test_a_board_of_the_users_own_without_coefficients(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shipped = (DIGITS.parents[1] / "toolchains" / "targets" / "pi4.yaml").read_text()
    file = tmp_path / "mine.yaml"
    file.write_text(shipped[: shipped.index("  coefficients:")].replace("aliases: [pi]\n", ""))
    assert cli.main(["predict", *NETWORK, "--target", str(file)]) == 3
    said = capsys.readouterr().err
    assert "no prediction for mine: its board has no coefficients" in said
    assert "harness predict --calibrate" in said


SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, dataset: data, calibration: {images: 4}}]
policies:
  - fp32
  - fp16
  - int8
  - {name: mixed, default: int8, layers: {first: fp32}}
  - {name: dynamic, default: int8, quantize: 1}
targets: [pi4]
threads: [1, 4]
emulated: {images: 0, runs: 3}
"""


def swept_ms(results: Path, policy: str) -> float:
    with contextlib.closing(sqlite3.connect(results / "results.sqlite")) as database:
        (text,) = database.execute(
            "SELECT result FROM cells JOIN plan ON cell = key WHERE policy = ? AND threads = 1", (policy,)
        ).fetchone()
    return float(json.loads(text)["predicted_ms"])


def test_coefficients_are_fitted_to_a_measured_sweep(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sweep = write_tiny_sweep(tmp_path, SWEEP)
    run_sweep(sweep)
    results = tmp_path / "results"
    # A sweep profiles with the trained weights, in a container; `harness predict` with zeros, in none. On
    # other stacks and heaps, a few other lines miss the cache.
    for policy in ("fp16", "int8"):
        words = [f"--cfg={tmp_path / 'tiny.cfg'}", f"--weights={tmp_path / 'tiny.weights'}"]
        (row,) = predict(capsys, *words, "--policy", policy, "--target", "pi4")["predictions"]
        assert row["predicted_ms"] == pytest.approx(swept_ms(results, policy), rel=0.01, abs=0.001)
    words = ["--calibrate", str(sweep), "--results", str(results), "--target", "pi4"]
    assert cli.main(["predict", *words]) == 2
    assert "has no measurements of a real pi4" in capsys.readouterr().err
    # No board is here to measure on: what was emulated is declared measured, with the times of a board that
    # is half as fast as predicted.
    with sqlite3.connect(results / "results.sqlite") as database:
        database.execute("UPDATE plan SET emulated = 0")
        for key, text in database.execute("SELECT key, result FROM cells").fetchall():
            result = json.loads(text)
            result["p50_ms"] = result["predicted_ms"] * 2
            database.execute("UPDATE cells SET result = ? WHERE key = ?", (json.dumps(result), key))
    database.close()
    found = predict(capsys, *words)
    from harness.config.targets import load_target

    board = load_target("pi4").board
    assert board is not None
    assert board.coefficients is not None
    fitted = found["coefficients"]["coefficients"]
    assert fitted["compute"] == pytest.approx(2 * board.coefficients.compute, rel=0.05)
    assert fitted["median_error"] < 0.02
    assert set(found["coefficients"]["errors"]) == {
        f"pi4 tiny {policy} 1 thread" for policy in ("fp32", "fp16", "int8", "mixed", "dynamic")
    }
    assert "coefficients_all_cores" in found
    assert cli.main(["predict", *words]) == 0
    assert 'fitted_on: "5 cells of sweep"' in capsys.readouterr().out
