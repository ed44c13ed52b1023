"""Instruction sets by flags and by encodings (words as GNU as writes them)."""

from __future__ import annotations

import pytest

from harness.build.instruction_sets import asked_for, check_instruction_sets, instruction_set_of
from harness.config.targets import load_target
from harness.errors import TargetMismatchError

WORDS = (
    ("fadd h0, h1, h2", 0x1EE22820, "fp16"),
    ("fmul h3, h4, h5", 0x1EE50883, "fp16"),
    ("fcvtzs w0, h1", 0x1EF80020, "fp16"),
    ("scvtf h0, w1", 0x1EE20020, "fp16"),
    ("fmov h0, #1.0", 0x1EEE1000, "fp16"),
    ("fmov h0, w1", 0x1EE70020, "fp16"),
    ("fcmp h0, h1", 0x1EE12000, "fp16"),
    ("fcsel h0, h1, h2, eq", 0x1EE20C20, "fp16"),
    ("fmadd h0, h1, h2, h3", 0x1FC20C20, "fp16"),
    ("fsqrt h0, h1", 0x1EE1C020, "fp16"),
    ("fadd v0.8h, v1.8h, v2.8h", 0x4E421420, "fp16"),
    ("fmla v0.8h, v1.8h, v2.8h", 0x4E420C20, "fp16"),
    ("fmla v0.8h, v1.8h, v2.h[0]", 0x4F021020, "fp16"),
    ("fmul v0.8h, v1.8h, v2.h[3]", 0x4F329020, "fp16"),
    ("fmax v0.4h, v1.4h, v2.4h", 0x0E423420, "fp16"),
    ("fcvtzs v0.8h, v1.8h", 0x4EF9B820, "fp16"),
    ("fneg v0.8h, v1.8h", 0x6EF8F820, "fp16"),
    ("fcmgt v0.8h, v1.8h, #0.0", 0x4EF8C820, "fp16"),
    ("fdiv v0.8h, v1.8h, v2.8h", 0x6E423C20, "fp16"),
    ("fmov v0.8h, #1.0", 0x4F03FE00, "fp16"),
    ("frintn v0.8h, v1.8h", 0x4E798820, "fp16"),
    ("fmaxv h0, v1.8h", 0x4E30F820, "fp16"),
    ("faddp h0, v1.2h", 0x5E30D820, "fp16"),
    ("fmulx h0, h1, h2", 0x5E421C20, "fp16"),
    ("scvtf v0.8h, v1.8h, #3", 0x4F1DE420, "fp16"),
    ("fcvtzs v0.4h, v1.4h, #2", 0x0F1EFC20, "fp16"),
    ("fabs h1, h2", 0x1EE0C041, "fp16"),
    ("sdot v0.4s, v1.16b, v2.16b", 0x4E829420, "dotprod"),
    ("udot v0.2s, v1.8b, v2.8b", 0x2E829420, "dotprod"),
    ("sdot v0.4s, v1.16b, v2.4b[1]", 0x4FA2E020, "dotprod"),
    ("udot v0.4s, v1.16b, v2.4b[3]", 0x6FA2E820, "dotprod"),
    ("ldadd w0, w1, [x2]", 0xB8200041, "lse"),
    ("ldaddal x0, x1, [x2]", 0xF8E00041, "lse"),
    ("swp w0, w1, [x2]", 0xB8208041, "lse"),
    ("cas w0, w1, [x2]", 0x88A07C41, "lse"),
    ("casal x0, x1, [x2]", 0xC8E0FC41, "lse"),
    ("ldset w0, w1, [x2]", 0xB8203041, "lse"),
    ("casb w0, w1, [x2]", 0x08A07C41, "lse"),
    ("ldaddlb w0, w1, [x2]", 0x38600041, "lse"),
    ("add z0.s, z1.s, z2.s", 0x04A20020, "sve"),
    ("ptrue p0.b", 0x2518E3E0, "sve"),
    ("ld1w {z0.s}, p0/z, [x0]", 0xA540A000, "sve"),
    ("fmla z0.s, p0/m, z1.s, z2.s", 0x65A20020, "sve"),
    ("st1w {z0.s}, p0, [x0]", 0xE540E000, "sve"),
    ("add x0, x1, x2", 0x8B020020, None),
    ("fadd s0, s1, s2", 0x1E222820, None),
    ("fadd d0, d1, d2", 0x1E622820, None),
    ("fmla v0.4s, v1.4s, v2.4s", 0x4E22CC20, None),
    ("fmla v0.4s, v1.4s, v2.s[1]", 0x4FA21020, None),
    ("fcvt s0, h1", 0x1EE24020, None),
    ("fcvt h0, s1", 0x1E23C020, None),
    ("fcvtl v0.4s, v1.4h", 0x0E217820, None),
    ("fcvtn v0.4h, v1.4s", 0x0E216820, None),
    ("smlal v0.4s, v1.4h, v2.4h", 0x0E628020, None),
    ("smull v0.8h, v1.8b, v2.8b", 0x0E22C020, None),
    ("sqdmulh v0.8h, v1.8h, v2.8h", 0x4E62B420, None),
    ("mul v0.8h, v1.8h, v2.8h", 0x4E629C20, None),
    ("mla v0.8h, v1.8h, v2.h[1]", 0x6F520020, None),
    ("ldr h0, [x0]", 0x7D400000, None),
    ("str h0, [x0]", 0x7D000000, None),
    ("ldxr w0, [x1]", 0x885F7C20, None),
    ("stxr w2, w0, [x1]", 0x88027C20, None),
    ("ldar w0, [x1]", 0x88DFFC20, None),
    ("ldp x0, x1, [x2]", 0xA9400440, None),
    ("ld1 {v0.8h}, [x0]", 0x4C407400, None),
    ("umov w0, v1.h[1]", 0x0E063C20, None),
    ("dup v0.8h, w0", 0x4E020C00, None),
    ("movi v0.8h, #1", 0x4F008420, None),
    ("shl v0.8h, v1.8h, #3", 0x4F135420, None),
    ("sshr v0.8h, v1.8h, #1", 0x4F1F0420, None),
    ("tbl v0.16b, {v1.16b}, v2.16b", 0x4E020020, None),
    ("ext v0.16b, v1.16b, v2.16b, #3", 0x6E021820, None),
    ("br x0", 0xD61F0000, None),
    ("ldr x0, [x1, x2]", 0xF8626820, None),
    ("str w0, [x1, #4]", 0xB9000420, None),
    ("ldrb w0, [x1], #1", 0x38401420, None),
    ("fmov s0, #1.0", 0x1E2E1000, None),
    ("fmov v0.4s, #1.0", 0x4F03F600, None),
    ("fmov w0, s1", 0x1E260020, None),
    ("scvtf s0, w1", 0x1E220020, None),
    ("fcvtzs w0, s1", 0x1E380020, None),
    ("fcsel s0, s1, s2, eq", 0x1E220C20, None),
    ("zip1 v0.8h, v1.8h, v2.8h", 0x4E423820, None),
    ("uaddlv s0, v1.8h", 0x6E703820, None),
    ("smaxv h0, v1.8h", 0x4E70A820, None),
    ("sqrdmulh h0, h1, h2", 0x7E62B420, None),
    ("cmgt v0.8h, v1.8h, #0", 0x4E608820, None),
    ("add v0.8h, v1.8h, v2.8h", 0x4E628420, None),
    ("smax v0.8h, v1.8h, v2.8h", 0x4E626420, None),
    ("addv h0, v1.8h", 0x4E71B820, None),
    ("xtn v0.8b, v1.8h", 0x0E212820, None),
    ("frecpe v0.4s, v1.4s", 0x4EA1D820, None),
    ("fmulx s0, s1, s2", 0x5E22DC20, None),
    ("scvtf v0.4s, v1.4s, #3", 0x4F3DE420, None),
    ("shrn v0.8b, v1.8h, #2", 0x0F0E8420, None),
    ("sxtl v0.8h, v1.8b", 0x0F08A420, None),
    ("mov v0.h[0], w1", 0x4E021C20, None),
    ("ins v0.h[1], v1.h[2]", 0x6E062420, None),
)


@pytest.mark.parametrize(("text", "word", "flag"), WORDS)
def test_an_instruction_is_named(text: str, word: int, flag: str | None) -> None:
    found = instruction_set_of(word)
    assert (found.flag if found else None) == flag, text


@pytest.mark.parametrize(
    ("flags", "sets"),
    [
        ("-O3 -march=armv8-a", set()),
        ("-march=armv8-a+fp16", {"fp16"}),
        ("-march=armv8.2-a+fp16+dotprod", {"lse", "fp16", "dotprod"}),
        ("-mcpu=generic+v8_2a+fullfp16", {"lse", "fp16"}),
        ("-march=armv8.4-a", {"lse", "dotprod"}),
        ("-march=armv9-a", {"lse", "dotprod", "sve"}),
        ("-mtune=cortex-a72 -mavx2", set()),
    ],
)
def test_flags_ask_for_sets(flags: str, sets: set[str]) -> None:
    assert asked_for(flags) == sets


def test_a_core_is_not_asked_for_more_than_it_has() -> None:
    flags = {"src/io/npy.cpp": "-O2 -march=armv8.2-a+fp16"}
    check_instruction_sets(flags, load_target("pi5"))
    check_instruction_sets(flags, load_target("jetson-xavier"))
    with pytest.raises(TargetMismatchError, match=r"src/io/npy\.cpp .*fp16.*pi4.*cortex-a72.*-march=armv8"):
        check_instruction_sets(flags, load_target("pi4"))


def test_kernels_of_a_set_may_use_it() -> None:
    flags = {"src/kernels/neon_dotprod/implementation.cpp": "-march=armv8.2-a+fp16+dotprod"}
    check_instruction_sets(flags, load_target("pi3"))
    with pytest.raises(TargetMismatchError, match="dot products"):
        check_instruction_sets({"src/kernels/select.cpp": "-march=armv8-a+dotprod"}, load_target("pi3"))
