"""The engine on an emulated board: the host's bits, and a count that repeats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.boards.base import Board
from harness.boards.inventory import open_board
from harness.build.engine import build_engine
from harness.config.policy import Policy, Setting, apply
from harness.config.targets import load_target
from harness.images.availability import emulation_missing
from harness.prediction.profile import read_profile
from harness.qemu.profiler import profiling_missing
from harness.resources import resource
from harness.runtimes.engine import EngineOptions, HostEngine, bench_arguments, forward_arguments

pytestmark = [pytest.mark.emulation, pytest.mark.engine]

DIGITS = resource("cfg", "digits")
TARGETS = ["pi4", "jetson-nano"]


@pytest.fixture(scope="module", params=TARGETS)
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    if missing := emulation_missing():
        pytest.skip("; ".join(missing))
    with open_board(load_target(request.param)) as board:
        yield board


@pytest.fixture(scope="module")
def int8_cfg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cfg") / "int8.cfg"
    policy = Policy(name="int8", default=Setting(precision="int8"))
    path.write_text(apply(policy, (DIGITS / "digits.cfg").read_text()))
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "images.npy"
    random = np.random.default_rng(5)
    np.save(path, random.integers(0, 256, (2, 128, 128, 3), dtype=np.uint8))
    return path


def test_int8_results_are_the_hosts_bit_for_bit(board: Board, int8_cfg: Path, images: Path) -> None:
    calibration = DIGITS / "digits.calibration.json"
    host = HostEngine(build_engine(load_target("host")).engine)
    expected = host.forward(
        int8_cfg,
        DIGITS / "digits.weights",
        np.load(images),
        EngineOptions(calibration=calibration),
        digest=True,
    ).digests
    paths = board.deploy(
        {
            "engine": build_engine(board.target).engine,
            "cfg": int8_cfg,
            "weights": DIGITS / "digits.weights",
            "calibration": calibration,
            "images": images,
        }
    )
    for algorithm in (None, "reference"):
        result = board.run(
            forward_arguments(
                paths["engine"],
                cfg=paths["cfg"],
                weights=paths["weights"],
                input=paths["images"],
                options=EngineOptions(calibration=paths["calibration"], algorithm=algorithm),
                digest=True,
            ),
            timeout=300,
        )
        assert result.status == 0, result.stderr
        assert json.loads(result.stdout)["digests"] == expected
    assert len(set(expected)) == 2


def test_instructions_of_an_inference_are_counted_the_same_each_time(board: Board, tmp_path: Path) -> None:
    if missing := profiling_missing():
        pytest.skip("; ".join(missing))
    paths = board.deploy(
        {
            "engine": build_engine(board.target).engine,
            "cfg": DIGITS / "digits.cfg",
            "weights": DIGITS / "digits.weights",
        }
    )
    argv = bench_arguments(
        paths["engine"],
        cfg=paths["cfg"],
        weights=paths["weights"],
        options=EngineOptions(),
        warmup=1,
        runs=1,
        mark=True,
    )
    profiles = []
    for _ in range(2):
        assert board.profiler
        assert board.profiler.profile(argv, tmp_path / "profile", timeout=300)
        profiles.append(read_profile(tmp_path / "profile"))
    assert profiles[0].instructions > 1_000_000
    assert profiles[0].instructions == profiles[1].instructions
