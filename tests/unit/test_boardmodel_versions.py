"""Published times beside the predictions for two versions of ncnn, from profiles that are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import BOARD, NOP, write_profile

from harness.config.board_data import BoardData, Coefficients
from harness.prediction.model import Costs, Prediction, predict
from harness.prediction.profile import RUN_ENDED, Profiled
from harness.sdk.packages import read_packages
from tools.boardmodel import benchmark_options, validation, versions_command
from tools.boardmodel.__main__ import main
from tools.boardmodel.published import read_benchmark
from tools.boardmodel.validation import FOUR, profile_path

NETWORK, TARGETS = "squeezenet", ("pi4", "pi5")
PUBLISHED = {board.target.name: board for board in read_benchmark().boards}


class FakePredictor:
    """A cycle per instruction, without LLVM."""

    def __init__(self, board: BoardData) -> None:
        self.board = board

    def predict(self, profiled: Profiled, threads: int) -> Prediction:
        profile = profiled.several if threads > 1 else profiled.alone
        assert profile is not None
        profile = replace(profile, threads=threads)
        return predict(profile, Costs(blocks={0: 2.0}, line_fill=0.0), self.board, threads)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Profiles of one network: those of the times' own version have the published work, the pinned ones half.
    Four threads take half of the cycles, each of which takes twice as long."""
    every = Coefficients(compute=2.0, memory=0.0, error_p90=0.1)
    board = replace(BOARD, cores=4, coefficients_all_cores=every)

    def fail(*_: object) -> None:
        raise AssertionError("nothing is to be profiled")

    monkeypatch.setattr(validation, "ncnn_board", fail)
    for module in (benchmark_options, versions_command):
        monkeypatch.setattr(module, "find_predictor", lambda *_, **__: FakePredictor(board))
    for target in TARGETS:
        cycles = round(1e6 * PUBLISHED[target].one_thread_ms[NETWORK])
        for folder, share in ((tmp_path, 2), (tmp_path / f"ncnn-{read_packages('ncnn').version}", 4)):
            (folder / target).mkdir(parents=True)
            for threads in (1, FOUR):
                path = profile_path(folder, target, NETWORK, threads)
                runs = cycles // share // (1 if threads == 1 else 2)
                write_profile(path, [2 * NOP], [(RUN_ENDED, 0, [(0, runs)])])
    (tmp_path / f"{NETWORK}.param").write_text("")
    return tmp_path


def words(kept: Path) -> list[str]:
    targets = [word for target in TARGETS for word in ("--target", target)]
    return ["versions", str(kept), "--network", NETWORK, "--profiles", str(kept), *targets]


def test_each_time_is_compared_with_both_versions(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(kept), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["comparisons"]
    assert [(row["target"], row["threads"]) for row in rows] == [
        (target, threads) for target in TARGETS for threads in (1, 4)
    ]
    for row in rows:
        board = PUBLISHED[row["target"]]
        dated, pinned = row["predictions"]
        assert dated["version"] == board.packages.version
        assert pinned["version"] == read_packages("ncnn").version
        assert dated["predicted_ms"] == pytest.approx(board.one_thread_ms[NETWORK], rel=1e-4)
        assert pinned["predicted_ms"] == pytest.approx(dated["predicted_ms"] / 2, rel=1e-4)
        low, high = dated["interval_ms"]
        assert dated["inside"] == (low <= row["published_ms"] <= high)
        if row["threads"] == 1:
            assert row["published_ms"] == board.one_thread_ms[NETWORK]
            assert (dated["inside"], pinned["inside"]) == (True, False)
        else:
            assert row["published_ms"] == board.four_threads_ms[NETWORK]


def test_the_tables_have_a_row_for_each_time(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(kept)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if NETWORK in line]) == 4
