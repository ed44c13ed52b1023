"""Comparison of a board's facts with its target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.boards.probe.expectations import mismatches
from harness.boards.probe.facts import CORES, BoardFacts, Clock
from harness.config.targets import all_targets, load_target

FITTING = BoardFacts(
    machine="aarch64",
    bits=64,
    libc="glibc 2.36",
    glibc="2.36",
    cores=("cortex-a76",) * 4,
    cores_present=4,
    features=("fp", "asimd", "atomics", "fphp", "asimdhp", "asimddp"),
    clocks=(Clock(cores="0 1 2 3", max_hz=2.4e9, limit_hz=2.4e9),),
)


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ({"machine": "armv7l"}, "the kernel is armv7l, but pi5 is aarch64", "64-bit"),
        ({"bits": 32}, "the system is 32-bit", "64-bit system"),
        (
            {"libc": "glibc 2.31", "glibc": "2.31"},
            "glibc is 2.31, but pi5 has 2.36",
            "glibc 2.31 or older",
        ),
        ({"libc": "glibc 2.4", "glibc": "2.4"}, "glibc is 2.4, but pi5 has 2.36", "glibc 2.4 or older"),
        ({"cores": ("cortex-a72",) * 4}, "the cores are cortex-a72, but pi5 has cortex-a76", "`target`"),
        (
            {"cores": ("cortex-a76",) * 2},
            "2 cortex-a76 cores are online, but pi5 has 4",
            "maxcpus=",
        ),
        (
            {"cores": ("cortex-a76",) * 2, "cores_present": 2},
            "2 cortex-a76 cores are online, but pi5 has 4",
            "`target`",
        ),
        (
            {"features": ("fp", "asimd", "atomics", "asimddp")},
            "have no fphp, asimdhp, but pi5 has fp16",
            "use it",
        ),
        (
            {"clocks": (Clock(cores="0", max_hz=2.4e9, limit_hz=1.5e9),)},
            "the highest clock is 1500 MHz, but pi5 has 2400",
            "scaling_max_freq",
        ),
        (
            {"clocks": (Clock(cores="0", max_hz=3e9, limit_hz=3e9),)},
            "the highest clock is 3000 MHz, but pi5 has 2400",
            "config.txt",
        ),
    ],
)
def test_each_difference_is_a_line_with_its_hint(change: dict[str, object], said: str, hint: str) -> None:
    target = load_target("pi5")
    assert mismatches(FITTING, target) == []
    (mismatch,) = mismatches(replace(FITTING, **change), target)  # type: ignore[arg-type]
    assert said in mismatch.message
    assert hint in mismatch.hint


def test_more_and_newer_is_no_difference() -> None:
    newer = replace(FITTING, glibc="2.41", cores=("cortex-a76",) * 6, features=(*FITTING.features, "sve"))
    assert mismatches(newer, load_target("pi5")) == []
    few = BoardFacts(machine="aarch64", cores=("cortex-a76",) * 4)  # of BusyBox, for example
    assert mismatches(few, load_target("pi5")) == []


@pytest.mark.parametrize(
    "facts",
    [BoardFacts(), replace(FITTING, machine=None), BoardFacts(machine="aarch64"), BoardFacts(kernel="6.1")],
)
def test_a_board_without_usable_facts_does_not_fit(facts: BoardFacts) -> None:
    (found,) = mismatches(facts, load_target("pi5"))
    assert found.message.startswith("unknown: its ")
    assert found.message.endswith("cannot check whether the board fits its target")


def test_the_core_of_every_target_has_a_name() -> None:
    for target in all_targets():
        if target.board is not None:
            assert CORES[target.board.midr >> 24, target.board.midr >> 4 & 0xFFF] == target.cpu
