"""From profiles to milliseconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from profiles import BOARD, NOP, Row, write_profile

from harness.config.board_data import Coefficients
from harness.prediction.model import (
    UNVALIDATED_ERROR,
    Costs,
    Work,
    features,
    fitted_coefficients,
    hot_blocks,
    predict,
    work_of,
)
from harness.prediction.profile import LAYER_ENDED, RUN_ENDED, Profile, read_profile

COSTS = Costs(blocks={0: 2.0, 1: 10.0}, line_fill=4.0)
FIRST: Row = (0, 1000, (10, 6, 99), (20, 12, 99))  # the board has two levels: the third counts for nothing
SECOND: Row = (1, 500)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Two layers: 1000 rounds of 2 instructions with misses, then 500 of 5."""
    write_profile(
        tmp_path / "profile",
        [2 * NOP, 5 * NOP],
        [(LAYER_ENDED, 3, [FIRST]), (LAYER_ENDED + 1, 0, [SECOND]), (RUN_ENDED, 1, [])],
    )
    return read_profile(tmp_path / "profile")


def test_work_is_iterations_filled_lines_and_moved_lines(profile: Profile) -> None:
    assert work_of(profile, COSTS, levels=2) == Work(
        instructions=1000 * 2 + 500 * 5,
        cycles=1000 * 2.0 + 500 * 10.0 + 30 * 4.0,
        bytes_moved=64 * (6 + 12 + 3 + 1),
    )


def test_memory_serves_the_misses_of_the_last_level(profile: Profile) -> None:
    assert work_of(profile, COSTS, levels=3).bytes_moved == 64 * (99 + 99 + 3 + 1)


def test_time_is_made_of_cycles_and_bytes(profile: Profile) -> None:
    found = predict(profile, COSTS, BOARD)
    assert found.compute_ms == pytest.approx(1e3 * 7120 / 1e9)
    assert found.memory_ms == pytest.approx(1e3 * 0.5 * 64 * 22 / 2e9)
    assert found.milliseconds == pytest.approx(found.compute_ms + found.memory_ms)
    assert found.work == work_of(profile, COSTS, levels=2)


def test_layers_add_up_to_the_whole_without_the_gaps(profile: Profile) -> None:
    found = predict(profile, COSTS, BOARD)
    written_back_after = 1e3 * 0.5 * 64 / 2e9
    assert sorted(found.layers) == [0, 1]
    assert found.layers[1] == pytest.approx(1e3 * 5000 / 1e9)
    assert sum(found.layers.values()) == pytest.approx(found.milliseconds - written_back_after)


def test_the_interval_follows_from_the_error(profile: Profile) -> None:
    found = predict(profile, COSTS, BOARD)
    low, high = found.interval_ms
    assert found.validated
    assert found.error == 0.1
    assert found.milliseconds / low - 1 == pytest.approx(0.1)
    assert found.milliseconds / high - 1 == pytest.approx(-0.1)


def test_a_board_without_measurements_has_a_wider_interval(profile: Profile) -> None:
    guessed = replace(BOARD, coefficients=Coefficients(compute=1.0, memory=0.5), coefficients_all_cores=None)
    found = predict(profile, COSTS, guessed)
    assert (found.validated, found.error) == (False, UNVALIDATED_ERROR)


def test_cold_blocks_cost_as_much_as_the_others(profile: Profile) -> None:
    found = work_of(profile, Costs(blocks={1: 10.0}, line_fill=0.0), levels=2)
    assert found.cycles == 2000 + 5000  # the first layer has nothing hot: a cycle an instruction


def test_hot_blocks_are_those_that_executed_most(tmp_path: Path) -> None:
    rows: list[Row] = [(0, 10), (1, 100_000), (2, 1), (3, 5_000)]
    write_profile(tmp_path / "profile", [NOP] * 4, [(LAYER_ENDED, 0, rows), (RUN_ENDED, 0, [(3, 5_000)])])
    assert hot_blocks(read_profile(tmp_path / "profile")).tolist() == [1, 3]


def test_threads_share_cycles_and_not_memory() -> None:
    work = Work(instructions=0, cycles=1e6, bytes_moved=1_000_000)
    assert features(work, BOARD, 1) == pytest.approx((1.0, 0.5))
    assert features(work, BOARD, 2) == pytest.approx((0.5, 0.5))
    assert features(work, BOARD, 8) == features(work, BOARD, 2)  # it has two cores


def test_coefficients_are_interpolated_between_one_core_and_all() -> None:
    board = replace(BOARD, cores=3)
    assert fitted_coefficients(board, 1) == board.coefficients
    assert fitted_coefficients(board, 3) == board.coefficients_all_cores
    between = fitted_coefficients(board, 2)
    assert (between.compute, between.memory, between.error_p90) == pytest.approx((1.25, 0.75, 0.2))


def test_threads_without_coefficients_of_their_own_are_unvalidated() -> None:
    found = fitted_coefficients(replace(BOARD, coefficients_all_cores=None), 2)
    assert not found.validated
    assert (found.compute, found.memory) == (1.0, 0.5)


def test_a_prediction_with_borrowed_coefficients_says_so(profile: Profile) -> None:
    borrowed = replace(BOARD, coefficients=Coefficients(compute=1.0, memory=0.5, like="pi5"))
    found = predict(profile, COSTS, borrowed)
    assert (found.coefficients_of, found.validated) == ("pi5", False)
    assert predict(profile, COSTS, BOARD).coefficients_of == ""
    every = replace(BOARD, coefficients_all_cores=Coefficients(compute=1.0, memory=0.5, like="pi4"))
    assert fitted_coefficients(every, 2).like == "pi4"


def test_cycles_that_are_divided_already_are_not_divided_again() -> None:
    work = Work(instructions=0, cycles=1e6, bytes_moved=1_000_000, threads=2)
    assert features(work, BOARD, 2) == pytest.approx((1.0, 0.5))


def test_threads_that_are_assumed_to_divide_the_work_equally_are_unvalidated(profile: Profile) -> None:
    found = predict(profile, COSTS, BOARD, 2)
    assert (found.validated, found.error) == (False, UNVALIDATED_ERROR)
    assert found.compute_ms == pytest.approx(1.5 * 1e3 * 7120 / 2 / 1e9)


def test_threads_that_share_memory_keep_their_own_coefficients(tmp_path: Path) -> None:
    """Where the memory takes longer than the cycles, four threads are far from a quarter of the time."""
    write_profile(tmp_path / "profile", [2 * NOP], [(LAYER_ENDED, 10_000, [(0, 1000)]), (RUN_ENDED, 0, [])])
    one, every = Coefficients(compute=1.0, memory=0.5), Coefficients(compute=0.7, memory=0.6)
    board = replace(BOARD, cores=4, coefficients=one, coefficients_all_cores=every)
    costs = Costs(blocks={0: 2.0}, line_fill=4.0)
    found = predict(read_profile(tmp_path / "profile"), costs, board, 4)
    assert found.compute_ms == pytest.approx(0.7 * 1e3 * 2000 / 1e9 / 4)
    assert found.memory_ms == pytest.approx(0.6 * 1e3 * 64 * 10_000 / 2e9)
