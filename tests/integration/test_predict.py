"""harness predict: one network, coefficients from measured times, and published times held against it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_sweep import run as run_sweep
from tiny_sweep import write_tiny_sweep

from harness import cli
from harness.config.random_weights import SEED, write_random_weights
from harness.images.availability import emulation_missing
from harness.prediction import published
from harness.prediction.llvm import find_llvm
from harness.qemu.profiler import profiling_missing
from harness.runtimes.engine import HostEngine

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
NETWORK = ["--cfg", str(DIGITS / "digits.cfg"), "--weights", str(DIGITS / "digits.weights")]


@pytest.fixture(scope="module", autouse=True)
def emulation() -> None:
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))
    if find_llvm() is None:
        pytest.skip("needs llvm-mca")


def predict(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main(["predict", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_network_is_predicted_with_its_layers_and_the_same_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*NETWORK, "--target", "pi4", "--threads", "1", "--threads", "4"]
    one, four = predict(capsys, *words)["predictions"]
    assert (one["threads"], four["threads"]) == (1, 4)
    assert one["predicted_low_ms"] < one["predicted_ms"] < one["predicted_high_ms"]
    assert one["predicted_ms"] == pytest.approx(one["compute_ms"] + one["memory_ms"])
    assert four["predicted_ms"] < one["predicted_ms"]
    layers = [layer["predicted_ms"] for layer in one["layers"]]
    assert len(layers) == 24
    assert sum(layers) == pytest.approx(one["predicted_ms"], rel=0.02)
    heaviest = max(one["layers"], key=lambda layer: layer["predicted_ms"])
    assert heaviest["type"] == "convolutional"
    again = predict(capsys, *words)["predictions"]
    assert again[0]["predicted_ms"] == pytest.approx(one["predicted_ms"], rel=0.001)


def test_a_board_of_the_users_own_without_coefficients(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shipped = (DIGITS.parents[1] / "toolchains" / "targets" / "pi4.yaml").read_text()
    file = tmp_path / "mine.yaml"
    file.write_text(shipped[: shipped.index("  coefficients:")].replace("aliases: [pi]\n", ""))
    assert cli.main(["predict", *NETWORK, "--target", str(file)]) == 3
    said = capsys.readouterr().err
    assert "nothing is predicted for mine: its board has no coefficients" in said
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


def test_coefficients_are_found_from_a_sweep_that_was_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sweep = write_tiny_sweep(tmp_path, SWEEP)
    run_sweep(sweep)
    results = tmp_path / "results"
    words = ["--calibrate", str(sweep), "--results", str(results), "--target", "pi4"]
    assert cli.main(["predict", *words]) == 2
    assert "measured nothing on a real pi4" in capsys.readouterr().err
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


@pytest.mark.data
def test_published_times_are_predicted(
    capsys: pytest.CaptureFixture[str], shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of the smaller networks on one board; all of them take an hour."""
    networks = ("squeezenet", "shufflenet_v2", "yolo-fastestv2", "FastestDet")
    whole = published.read_benchmark()
    board = next(board for board in whole.boards if board.target.name == "pi5")

    def only(times: Any) -> dict[str, float]:
        return {name: times[name] for name in networks}

    few = replace(board, one_thread_ms=only(board.one_thread_ms), four_threads_ms=only(board.four_threads_ms))
    inputs = {name: whole.inputs[name] for name in networks}
    monkeypatch.setattr(published, "read_benchmark", lambda: replace(whole, inputs=inputs, boards=(few,)))
    nets = shared_data.parent / "tools" / "boardmodel" / "nets"
    words = ["--validate", str(nets), "--profiles", str(tmp_path / "kept"), "--plot", str(tmp_path / "p.svg")]
    found = predict(capsys, *words)
    (row,) = found["boards"]
    assert set(row["one_thread"]["errors"]) == set(networks)
    assert row["one_thread"]["coefficients"]["median_error"] < 0.2
    assert (tmp_path / "p.svg").read_text().lstrip().startswith("<?xml")
    profiles = sorted(path.name for path in (tmp_path / "kept" / "pi5").iterdir())
    assert profiles == sorted(f"{name}.profile" for name in networks)
    # With the coefficients that ship each of them is within a third of what the board took.
    from harness.prediction.predictor import find_predictor
    from harness.prediction.profile import read_profile

    predictor = find_predictor(few.target)
    for name in networks:
        predicted = predictor.predict(read_profile(tmp_path / "kept" / "pi5" / f"{name}.profile"))
        assert predicted.milliseconds == pytest.approx(few.one_thread_ms[name], rel=0.33)
    assert predict(capsys, *words) == found  # from what was kept


def test_networks_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["predict", "--validate", str(tmp_path)]) == 2
    assert "has no squeezenet.param and 23 more" in capsys.readouterr().err


def layers_of(precision: str) -> str:
    """A 3x3 and a 1x1 convolution, whose products are what the time goes to."""
    keys = f"{precision}=1\n" + ("quantize=1\n" if precision == "int8" else "")
    sizes = [(96, 3), (128, 1)]
    return "[net]\nwidth=26\nheight=26\nchannels=64\n" + "".join(
        f"[convolutional]\nfilters={filters}\nsize={size}\npad=1\nactivation=leaky\n{keys}"
        for filters, size in sizes
    )


# The Pi 3 and the Pi 4 differ in core, not in kernels; only the Pi 5 has arithmetic on halves.
@pytest.mark.parametrize(
    ("target", "precision"),
    [
        *((target, precision) for target in ("pi3", "pi4", "jetson-nano") for precision in ("fp32", "int8")),
        *(("pi5", precision) for precision in ("fp32", "fp16", "int8")),
    ],
)
@pytest.mark.parametrize("algorithm", ["chosen", "gemm"])
def test_inner_loops_come_near_their_core_s_peak(
    target: str,
    precision: str,
    algorithm: str,
    host_engine: HostEngine,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    cfg, weights = tmp_path / "layers.cfg", tmp_path / "layers.weights"
    cfg.write_text(layers_of(precision))
    write_random_weights(weights, host_engine.info(cfg)["layers"], SEED)
    words = ["--cfg", str(cfg), "--weights", str(weights), "--target", target, "--loops", str(tmp_path)]
    words += [] if algorithm == "chosen" else ["--algorithm", algorithm]
    (row,) = predict(capsys, *words)["predictions"]
    heavy = [loop for loop in row["loops"] if loop["share"] > 0.1]
    assert sum(loop["share"] for loop in heavy) > 0.4
    assert heavy[0]["peak"] >= 0.85, "\n".join(heavy[0]["assembly"])
    # What is left over of a row of pixels takes narrower tiles, with fewer multiply-adds to a load.
    for loop in heavy[1:]:
        assert loop["peak"] >= 0.8, "\n".join(loop["assembly"])
    command = (tmp_path / target / "loop-0.s").read_text().splitlines()[0]
    assert "llvm-mca" in command
    assert "-mcpu=" in command
