"""Finding inner loops in profiles."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from profiles import BOARD, NOP, Scripted, write_profile

from harness.prediction.core_model import CoreModel, load_core_model
from harness.prediction.llvm import Llvm
from harness.prediction.predictor import Predictor
from harness.prediction.profile import LAYER_ENDED, RUN_ENDED, Profile, read_profile
from tools.boardmodel.loops import find_loops, write_loops

FMLA, SADALP, HALF, BRANCH = range(4)
TEXTS = {
    FMLA: "fmla v0.4s, v1.4s, v2.s[0]",
    SADALP: "sadalp v0.4s, v1.8h",
    HALF: "smlal v0.4h, v1.8b, v2.8b",
}


def back(words: int) -> int:
    """b.ne so many instructions back."""
    return 0x54000001 | ((1 << 19) - words) << 5


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


class Assembler(Scripted):
    """An LLVM that knows the words above and branches."""

    def disassemble(self, words: Sequence[int]) -> dict[int, str]:
        return {word: TEXTS.get(word, "b.ne #-4" if word >> 24 == 0x54 else "nop") for word in words}


def a_cycle_an_instruction(blocks: Sequence[bytes], core: CoreModel, llvm: Llvm) -> npt.NDArray[np.float64]:
    return np.array([len(block) / 4 for block in blocks])


@pytest.fixture
def predictor(monkeypatch: pytest.MonkeyPatch) -> Predictor:
    for module in ("tools.boardmodel.loops", "harness.prediction.predictor"):
        monkeypatch.setattr(f"{module}.block_cycles", a_cycle_an_instruction)
    return Predictor(board=BOARD, core=load_core_model("cortex-a53"), llvm=Assembler())


def profile_of(tmp_path: Path, blocks: list[tuple[int, bytes, int]]) -> Profile:
    """Blocks with address and runs, in layer 3."""
    path = tmp_path / "profile"
    rows = [(number, runs) for number, (_, _, runs) in enumerate(blocks)]
    write_profile(path, [block for _, block, _ in blocks], [(LAYER_ENDED + 3, 0, rows), (RUN_ENDED, 0, [])])
    return replace(read_profile(path), addresses=[address for address, _, _ in blocks])


def test_a_loop_is_found_with_its_share_and_its_peak(tmp_path: Path, predictor: Predictor) -> None:
    body = code(FMLA, FMLA, SADALP, back(3))
    (loop,) = find_loops(profile_of(tmp_path, [(0, body, 90), (64, NOP * 4, 10)]), predictor)
    assert loop.layers == (3,)
    assert (loop.cycles, loop.multiply_adds) == (4.0, 3.0)
    assert loop.peak == pytest.approx(3 / 4)
    assert loop.share == pytest.approx(0.9)
    assert len(loop.assembly) == 4


def test_an_operation_on_half_a_vector_counts_as_half(tmp_path: Path, predictor: Predictor) -> None:
    (loop,) = find_loops(profile_of(tmp_path, [(0, code(HALF, back(1)), 90)]), predictor)
    assert loop.multiply_adds == 0.5


def test_a_body_in_two_blocks_is_one_loop(tmp_path: Path, predictor: Predictor) -> None:
    first, second = code(FMLA, FMLA), code(FMLA, back(3))
    (loop,) = find_loops(profile_of(tmp_path, [(0x1000, first, 50), (0x1008, second, 50)]), predictor)
    assert len(loop.assembly) == 4
    assert loop.share == pytest.approx(1.0)


def test_other_blocks_are_not_reported_as_loops(tmp_path: Path, predictor: Predictor) -> None:
    blocks = [
        (0, code(FMLA, FMLA), 90),  # no branch
        (64, NOP * 3 + code(back(3)), 90),  # no multiply-add
        (128, code(FMLA, 0x54000021), 90),  # a branch ahead
        (256, code(FMLA, back(40)), 90),  # a loop with blocks that did not run
    ]
    assert find_loops(profile_of(tmp_path, blocks), predictor) == []


def test_the_assembly_is_written_with_its_command(tmp_path: Path, predictor: Predictor) -> None:
    loops = find_loops(profile_of(tmp_path, [(0, code(FMLA, back(1)), 90)]), predictor)
    write_loops(loops, tmp_path / "loops", predictor)
    lines = (tmp_path / "loops" / "loop-0.s").read_text().splitlines()
    assert "-mcpu=cortex-a55" in lines[0]
    assert lines[0].endswith("loop-0.s")
    assert lines[1] == TEXTS[FMLA]
