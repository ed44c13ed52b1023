"""LLVM's disassembler and analyser, as they are installed."""

from __future__ import annotations

import pytest

from harness.prediction.core_model import load_core_model
from harness.prediction.llvm import UNKNOWN, Llvm, find_llvm

FMLA = 0x4E22CC20  # fmla v0.4s, v1.4s, v2.4s
NOP = 0xD503201F
NO_INSTRUCTION = 0xFFFFFFFF


@pytest.fixture
def llvm() -> Llvm:
    found = find_llvm()
    if found is None:
        pytest.skip("no llvm-mc and llvm-mca of one version")
    return found


def test_words_are_disassembled_or_marked_unknown(llvm: Llvm) -> None:
    shown = llvm.disassemble([FMLA, NO_INSTRUCTION, NOP, FMLA])
    assert shown == {FMLA: "fmla v0.4s, v1.4s, v2.4s", NO_INSTRUCTION: UNKNOWN, NOP: "nop"}


def test_a_chain_of_multiplications_takes_the_latency_of_each(llvm: Llvm) -> None:
    fmul = 0x6E21DC00  # fmul v0.4s, v0.4s, v1.4s
    one, two = llvm.loop_cycles([[fmul], [fmul, fmul]], "cortex-a57")
    assert one == pytest.approx(5, abs=0.5)
    assert two == pytest.approx(2 * one, abs=0.5)


@pytest.mark.parametrize("name", ["cortex-a57", "cortex-a72", "cortex-a76", "cortex-a78", "carmel"])
def test_every_core_with_an_llvm_model_has_costs(llvm: Llvm, name: str) -> None:
    block = b"".join(word.to_bytes(4, "little") for word in (FMLA, FMLA, NOP))
    (cycles,) = load_core_model(name).cycles([block], llvm)
    assert 1 <= cycles <= 20
