"""python -m tools.boardmodel: predictions compared with published times, and inner loops with the peak."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from documented_commands import REPOSITORY, scripts

from harness.boards.qemu_user import qemu_user_missing
from harness.config.random_weights import SEED, write_random_weights
from harness.prediction.llvm import find_llvm
from harness.prediction.predictor import find_predictor
from harness.runtimes.engine import HostEngine
from tools.boardmodel import published
from tools.boardmodel.__main__ import main
from tools.boardmodel.validation import read_profiled

pytestmark = [pytest.mark.engine, pytest.mark.emulation]


@pytest.fixture(scope="module", autouse=True)
def emulation() -> None:
    if missing := qemu_user_missing():
        pytest.skip("; ".join(missing))
    if find_llvm() is None:
        pytest.skip("needs llvm-mca")


def output(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.data
def test_published_times_are_predicted(
    capsys: pytest.CaptureFixture[str], shared_data: Path, tmp_path: Path
) -> None:
    """Four of the smaller networks on one board; all of them take an hour."""
    networks = ("yolo-fastest-1.1", "shufflenet_v2", "yolo-fastestv2", "FastestDet")
    boards = published.read_benchmark().only(networks).boards
    board = next(board for board in boards if board.target.name == "pi5")
    nets = shared_data.parent / "tools" / "boardmodel" / "nets"
    # The line of docs/prediction.md.
    page = REPOSITORY / "docs" / "prediction.md"
    (line,) = (script for script in scripts(page) if "tools.boardmodel validate" in script)
    places = {"NETS": str(nets), "docs/prediction.svg": str(tmp_path / "p.svg")}
    words = [places.get(word, word) for word in shlex.split(line)[3:]]
    assert words[0] == "validate"
    words += ["--profiles", str(tmp_path / "kept")]
    words += ["--target", "pi5", *(word for name in networks for word in ("--network", name))]
    found = output(capsys, *words)
    (row,) = found["boards"]
    assert set(row["one_thread"]["errors"]) == set(networks)
    assert row["one_thread"]["coefficients"]["median_error"] < 0.2
    assert (tmp_path / "p.svg").read_text().lstrip().startswith("<?xml")
    profiles = sorted(path.name for path in (tmp_path / "kept" / "pi5").iterdir())
    assert profiles == sorted(f"{name}{more}.profile" for name in networks for more in ("", "-4-threads"))
    assert row["four_threads"]["coefficients"]["median_error"] < 0.2
    # With the shipped coefficients every prediction is within a third of the published time.
    predictor = find_predictor(board.target)
    for name in networks:
        profiled = read_profiled(tmp_path / "kept", "pi5", name)
        for threads, times in ((1, board.one_thread_ms), (4, board.four_threads_ms)):
            predicted = predictor.predict(profiled, threads)
            assert predicted.milliseconds == pytest.approx(times[name], rel=0.33)
    assert output(capsys, *words) == found  # from the profiles kept


def test_a_network_without_published_times_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["validate", str(tmp_path), "--network", "squeezenet", "--network", "lenet"]) == 2
    said = capsys.readouterr().err
    assert "no times are published for the network lenet" in said
    assert "squeezenet" in said


def test_too_few_networks_are_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", str(tmp_path), "--network", "squeezenet", "--network", "alexnet"]) == 2
    assert "2 networks are too few" in capsys.readouterr().err


def test_missing_networks_are_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", str(tmp_path)]) == 2
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
BOARDS = {
    "fp32": ("pi3", "pi4", "jetson-nano", "pi5"),
    "fp16": ("pi5",),
    "int8": ("pi3", "pi4", "jetson-nano", "pi5"),
}


@pytest.mark.parametrize("precision", BOARDS)
@pytest.mark.parametrize("algorithm", ["chosen", "gemm"])
def test_inner_loops_come_near_their_core_s_peak(
    precision: str,
    algorithm: str,
    host_engine: HostEngine,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    cfg, weights = tmp_path / "layers.cfg", tmp_path / "layers.weights"
    cfg.write_text(layers_of(precision))
    write_random_weights(weights, host_engine.info(cfg)["layers"], SEED)
    words = ["loops", "--cfg", str(cfg), "--weights", str(weights), "--out", str(tmp_path)]
    for target in BOARDS[precision]:
        words += ["--target", target]
    words += [] if algorithm == "chosen" else ["--algorithm", algorithm]
    rows = output(capsys, *words)["targets"]
    assert [row["target"] for row in rows] == list(BOARDS[precision])
    for row in rows:
        heavy = [loop for loop in row["loops"] if loop["share"] > 0.1]
        assert sum(loop["share"] for loop in heavy) > 0.4
        assert heavy[0]["peak"] >= 0.85, "\n".join([row["target"], *heavy[0]["assembly"]])
        # What is left over of a row of pixels takes narrower tiles, with fewer multiply-adds to a load.
        for loop in heavy[1:]:
            assert loop["peak"] >= 0.8, "\n".join([row["target"], *loop["assembly"]])
        command = (tmp_path / row["target"] / "loop-0.s").read_text().splitlines()[0]
        assert "llvm-mca" in command
        assert "-mcpu=" in command
