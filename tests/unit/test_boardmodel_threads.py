"""Four threads predicted from the first thread's own cycles, from profiles that are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from profiles import BOARD, NOP, write_profile

from harness.config.board_data import BoardData
from harness.prediction.model import Costs, Work, features, work_of
from harness.prediction.profile import RUN_ENDED, Profile
from tools.boardmodel import benchmark_options, threads_command, validation
from tools.boardmodel.__main__ import main
from tools.boardmodel.published import read_benchmark
from tools.boardmodel.threads_command import fit_memory

TIMES = next(board for board in read_benchmark().boards if board.target.name == "pi4").four_threads_ms
# Lines from memory of each network: more to each, so that the coefficients can be told apart.
LINES = {"squeezenet": 20_000, "mobilenet_v2": 60_000, "mnasnet": 90_000, "shufflenet_v2": 10_000}
MEMORY = 0.8


class FakePredictor:
    """A cycle per instruction, without LLVM."""

    def __init__(self, board: BoardData) -> None:
        self.board = board

    def work(self, profile: Profile) -> Work:
        return work_of(profile, Costs(blocks={0: 1.0}, line_fill=0.0), len(self.board.caches))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One thread has twice the cycles of the first of four threads, which takes just as long as published."""
    board = replace(BOARD, cores=4)
    assert board.coefficients is not None

    def fail(*_: object) -> None:
        raise AssertionError("nothing is to be profiled")

    monkeypatch.setattr(validation, "ncnn_board", fail)
    for module in (benchmark_options, threads_command):
        monkeypatch.setattr(module, "find_predictor", lambda *_, **__: FakePredictor(board))
    for network, lines in LINES.items():
        waiting = MEMORY * features(Work(instructions=0, cycles=0, bytes_moved=64 * lines), board)[1]
        cycles = round((TIMES[network] - waiting) * board.clock_hz / 1e3 / board.coefficients.compute)
        for folder, runs in ((tmp_path, 2 * cycles), (tmp_path / "four-threads", cycles)):
            path = folder / "pi4" / f"{network}.profile"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_profile(path, [NOP], [(RUN_ENDED, lines, [(0, runs)])])
        (tmp_path / f"{network}.param").write_text("")
    return tmp_path


def words(kept: Path) -> list[str]:
    networks = [word for network in LINES for word in ("--network", network)]
    return ["threads", str(kept), *networks, "--profiles", str(kept), "--target", "pi4"]


def test_the_first_thread_takes_the_published_time(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(kept), "--json"]) == 0
    (board,) = json.loads(capsys.readouterr().out)["boards"]
    assert board["shares"] == pytest.approx(dict.fromkeys(LINES, 0.5))
    assert board["own"] == pytest.approx(dict.fromkeys(LINES, 0.0), abs=1e-4)
    assert board["memory"] == pytest.approx(MEMORY, rel=1e-3)
    # Half of one thread's cycles is twice a quarter: the fitted compute coefficient makes up for it.
    assert board["divided"] == pytest.approx(dict.fromkeys(LINES, 0.0), abs=1e-3)


def test_the_table_has_a_row_for_each_network(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(kept)) == 0
    printed = capsys.readouterr().out
    assert all(network in printed for network in LINES)
    assert "memory 0.800" in printed


def test_the_coefficient_of_memory_is_never_negative() -> None:
    assert fit_memory(np.array([0.5, 0.6]), np.array([1.0, 0.5])) in (0.5, 0.8)
    assert fit_memory(np.array([1.5, 1.2]), np.array([1.0, 0.5])) == 0
