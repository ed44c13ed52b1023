"""The key `board` of target files."""

from __future__ import annotations

import re

import pytest

from harness.config.board_data import BoardData
from harness.config.document import parse_document
from harness.config.targets import BOARD_SHAPE, Target, all_targets, load_target
from harness.errors import ConfigurationError
from harness.prediction.core_model import load_core_model

TIMED = ("jetson-nano", "pi3", "pi4", "pi5")

BOARD = """\
cores: 4
clock_mhz: 1500
copy_mb_per_second: 2000
caches: [{kib: 32, ways: 4}, {kib: 1024, ways: 16, shared: true}]
midr: "0x410fd083"
core_model: cortex-a72
"""


def read(text: str) -> BoardData:
    return BOARD_SHAPE.read(parse_document(text, "board.yaml"))


def boards() -> list[Target]:
    return [target for target in all_targets() if not target.is_host]


def test_a_board_is_read() -> None:
    found = read(BOARD)
    assert (found.clock_hz, found.copy_bytes_per_second, found.midr) == (1.5e9, 2e9, 0x410FD083)
    assert [cache.shared for cache in found.caches] == [False, True]
    assert found.coefficients is None


@pytest.mark.parametrize(
    ("was", "wrong", "message"),
    [
        ("kib: 32, ways: 4", "kib: 32, ways: 3", "has 170.667 sets"),
        ("kib: 1024, ways: 16", "kib: 1000, ways: 16", "has 1000 sets"),
        ("0x410fd083", "410fd083", "a hexadecimal number"),
        ("core_model: cortex-a72", "core_model: cortex-a7", "unknown core cortex-a7"),
        ("clock_mhz: 1500\n", "", "needs the key clock_mhz"),
    ],
)
def test_invalid_board_data_is_refused_with_its_line(was: str, wrong: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=r"board\.yaml:\d+: .*" + message):
        read(BOARD.replace(was, wrong))


@pytest.mark.parametrize("target", boards(), ids=lambda target: target.name)
def test_every_board_can_be_predicted_for(target: Target) -> None:
    board = target.board
    assert board is not None
    assert board.coefficients is not None
    assert board.coefficients_all_cores is not None
    assert len(board.caches) <= 3
    assert load_core_model(board.core_model).least_llvm >= 14


@pytest.mark.parametrize("target", boards(), ids=lambda target: target.name)
def test_only_boards_that_were_timed_have_errors(target: Target) -> None:
    assert target.board is not None
    for coefficients in (target.board.coefficients, target.board.coefficients_all_cores):
        assert coefficients is not None
        assert coefficients.validated == (target.name in TIMED)
        assert bool(coefficients.fitted_on) == coefficients.validated


def test_boards_that_nobody_timed_have_the_mean_of_those_that_were() -> None:
    timed = [load_target(name).board for name in TIMED]
    guessed = load_target("jetson-orin").board
    assert guessed is not None
    for name in ("compute", "memory"):
        mean = sum(getattr(board.coefficients, name) for board in timed if board) / len(timed)
        assert getattr(guessed.coefficients, name) == pytest.approx(mean, abs=0.006)


def test_coefficients_are_borrowed_with_those_of_all_cores_and_without_their_errors() -> None:
    lender = load_target("pi5").board
    assert lender is not None
    found = read(BOARD + "coefficients: like pi5\n")
    for own, theirs in (
        (found.coefficients, lender.coefficients),
        (found.coefficients_all_cores, lender.coefficients_all_cores),
    ):
        assert own is not None
        assert theirs is not None
        assert (own.compute, own.memory) == (theirs.compute, theirs.memory)
        assert (own.like, own.validated) == ("pi5", False)


def test_an_alias_names_the_lender_and_each_key_may_have_its_own() -> None:
    text = "coefficients: {compute: 1, memory: 1}\ncoefficients_all_cores: like pi\n"
    found = read(BOARD + text)
    assert found.coefficients is not None
    assert found.coefficients_all_cores is not None
    assert (found.coefficients.like, found.coefficients_all_cores.like) == ("", "pi4")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "like pi6",
            "no coefficients of pi6 to borrow\n  Targets with coefficients: jetson-nano, .*pi5",
        ),
        ("like host", "there are no coefficients of host"),
        ("pi5", "expected coefficients, or those of a target, as in like pi5, found"),
        ("like", "as in like pi5"),
    ],
)
def test_a_lender_that_is_not_there_is_refused_with_the_line(value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=r"board\.yaml:7: ") as caught:
        read(BOARD + f"coefficients: {value}\n")
    assert re.search(message, str(caught.value))
