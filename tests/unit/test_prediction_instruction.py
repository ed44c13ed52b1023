"""Reading instructions from their text."""

from __future__ import annotations

import pytest

from harness.prediction.instruction import Instruction, Kind, parse_instruction
from harness.prediction.llvm import UNKNOWN


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("add x0, x1, x2", Kind.INTEGER),
        ("madd w0, w1, w2, w3", Kind.INTEGER_MULTIPLY),
        ("smull x0, w1, w2", Kind.INTEGER_MULTIPLY),
        ("udiv x0, x1, x2", Kind.INTEGER_DIVIDE),
        ("b.ne #-96", Kind.BRANCH),
        ("tbz w3, #0, #8", Kind.BRANCH),
        ("cbnz x0, #-4", Kind.BRANCH),
        ("ret", Kind.BRANCH),
        ("ldr q0, [x1], #16", Kind.LOAD),
        ("stp d8, d9, [sp, #16]", Kind.STORE),
        ("prfm pldl1keep, [x1, #512]", Kind.PREFETCH),
        ("nop", Kind.NOTHING),
        ("hint #34", Kind.NOTHING),
        ("bti c", Kind.NOTHING),
        (UNKNOWN, Kind.NOTHING),
        ("fmla v0.4s, v1.4s, v2.s[0]", Kind.FLOAT),
        ("fdiv v0.4s, v1.4s, v2.4s", Kind.DIVIDE),
        ("smlal2 v0.4s, v1.8h, v2.h[3]", Kind.VECTOR_MULTIPLY),
        ("sdot v0.4s, v1.16b, v2.4b[0]", Kind.DOT_PRODUCT),
        ("ext v0.16b, v1.16b, v1.16b, #8", Kind.VECTOR),
        ("tbl v0.16b, { v1.16b }, v2.16b", Kind.VECTOR),
        ("sadalp v0.4s, v1.8h", Kind.VECTOR),
    ],
)
def test_every_instruction_has_its_kind(text: str, kind: Kind) -> None:
    assert parse_instruction(text).kind is kind


def test_a_multiply_accumulate_reads_its_accumulator_apart_from_the_rest() -> None:
    assert parse_instruction("fmla v8.4s, v4.4s, v0.s[1]") == Instruction(
        kind=Kind.FLOAT, wide=True, writes=("v8",), reads=("v4", "v0"), accumulator="v8"
    )


def test_half_vectors_are_not_wide() -> None:
    assert not parse_instruction("add v0.2s, v1.2s, v2.2s").wide
    assert not parse_instruction("fadd s0, s1, s2").wide


@pytest.mark.parametrize(
    ("text", "doublewords"),
    [
        ("ldr x0, [x1]", 1),
        ("ldp x0, x1, [x2]", 2),
        ("ldr q0, [x1]", 2),
        ("ldp q0, q1, [x2]", 4),
        ("ldp d0, d1, [x2]", 2),
        ("ld1 { v0.4s, v1.4s, v2.4s, v3.4s }, [x0], #64", 8),
        ("ld1 { v0.2s }, [x0]", 1),
        ("ld1r { v0.4s }, [x0]", 1),
        ("st1 { v0.16b }, [x0]", 2),
    ],
)
def test_accesses_move_doublewords(text: str, doublewords: int) -> None:
    assert parse_instruction(text).doublewords == doublewords


def test_a_load_writes_its_registers_and_advances_its_base() -> None:
    assert parse_instruction("ldp q0, q1, [x2], #32") == Instruction(
        kind=Kind.LOAD, doublewords=4, writes=("v0", "v1"), reads=("x2",), written_back="x2"
    )
    assert parse_instruction("ldr x0, [sp, #16]!").written_back == "sp"
    assert parse_instruction("ldr x0, [x1, x2, lsl #3]").written_back == ""


def test_a_store_writes_no_register() -> None:
    stored = parse_instruction("st1 { v3.4s }, [x4], #16")
    assert (stored.writes, stored.reads, stored.written_back) == ((), ("v3", "x4"), "x4")


def test_a_partial_write_reads_the_register() -> None:
    assert "v0" in parse_instruction("ld1 { v0.s }[1], [x0]").reads
    assert "v0" in parse_instruction("mov v0.d[1], x3").reads
    assert "v0" not in parse_instruction("mov v0.16b, v1.16b").reads


def test_flags_connect_their_writer_and_reader() -> None:
    assert "flags" in parse_instruction("subs x0, x0, #1").writes
    assert parse_instruction("cmp x0, x1").writes == ("flags",)
    assert "flags" in parse_instruction("b.ne #-4").reads
    assert "flags" in parse_instruction("csel x0, x1, x2, eq").reads
