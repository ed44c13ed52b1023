"""Blocks that QEMU divided where no instruction branches."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from profiles import BOARD, NOP, Scripted

from harness.prediction import predictor as predictor_module
from harness.prediction.continued_blocks import continuations
from harness.prediction.core_model import load_core_model
from harness.prediction.predictor import Predictor
from harness.prediction.profile import LEVELS, Profile, Profiled, Segment

BRANCHES = {
    "b": 0x14000001,
    "bl": 0x94000001,
    "b.ne": 0x54000021,
    "cbz": 0xB4000020,
    "cbnz w": 0x35000020,
    "tbz": 0x36000020,
    "tbnz": 0xB7000020,
    "br": 0xD61F0000,
    "blr": 0xD63F0000,
    "ret": 0xD65F03C0,
    "svc": 0xD4000001,
}
FMLA = 0x4E20CC00


def word(value: int) -> bytes:
    return struct.pack("<I", value)


def profile_of(*blocks: tuple[int, bytes]) -> Profile:
    return Profile(
        blocks=[block for _, block in blocks], segments=[], addresses=[address for address, _ in blocks]
    )


def test_a_block_is_continued_up_to_the_next_branch() -> None:
    first, second, third = 3 * NOP, 2 * word(FMLA), NOP + word(BRANCHES["b.ne"])
    profile = profile_of((0x2000, third), (0x1FF8, second), (0x1FEC, first), (0x2008, NOP))
    assert continuations(profile, [0, 1, 2]) == [b"", third, second + third]


@pytest.mark.parametrize("name", BRANCHES)
def test_nothing_continues_a_branch(name: str) -> None:
    profile = profile_of((0x1000, NOP + word(BRANCHES[name])), (0x1008, NOP))
    assert continuations(profile, [0]) == [b""]


def test_without_the_next_block_a_block_ends() -> None:
    assert continuations(profile_of((0x1000, NOP), (0x2000, NOP)), [0, 1]) == [b"", b""]
    assert continuations(Profile(blocks=[NOP], segments=[]), [0]) == [b""]


def test_code_without_branches_is_joined_up_to_a_limit() -> None:
    profile = profile_of(*((0x1000 + 4 * i, NOP) for i in range(1000)))
    assert continuations(profile, [0]) == [512 * NOP]


class TriangularCosts:
    """The n-th instruction of a block costs n cycles."""

    def __call__(self, blocks: Sequence[bytes], *_: object) -> npt.NDArray[np.float64]:
        lengths = np.array([len(block) // 4 for block in blocks], dtype=np.float64)
        costs: npt.NDArray[np.float64] = lengths * (lengths + 1) / 2
        return costs


def test_a_divided_loop_costs_what_the_whole_one_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor_module, "block_cycles", TriangularCosts())
    whole = 5 * NOP + word(BRANCHES["b.ne"])
    loop = profile_of((0x1000, whole))
    divided = profile_of((0x1000, whole[:12]), (0x100C, whole[12:]))
    predicted = Predictor(board=BOARD, core=load_core_model("cortex-a53"), llvm=Scripted())
    cycles = [
        predicted.work(Profiled(alone=replace(profile, segments=[executed(profile)]))).cycles
        for profile in (loop, divided)
    ]
    assert cycles == [21 * 1000, 21 * 1000]


def executed(profile: Profile) -> Segment:
    """Every block a thousand times."""
    count = len(profile.blocks)
    none = np.zeros((count, LEVELS), dtype=np.int64)
    return Segment(
        mark=7780000,
        written_back=0,
        blocks=np.arange(count, dtype=np.int64),
        runs=np.full(count, 1000, dtype=np.int64),
        misses=none,
        streamed=none,
    )
