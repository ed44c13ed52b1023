"""Finds the instruction sets of a program by its compiler's flags, or by the instruction that stopped it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.config.targets import Target
from harness.errors import TargetMismatchError

# Each folder has the kernels of one instruction set; the engine chooses among them at run time.
_KERNEL_SETS = "src/kernels/"


@dataclass(frozen=True, kw_only=True)
class InstructionSet:
    """An extension of Armv8-A: its name in -march and -mcpu, and the encodings of its instructions."""

    name: str
    flag: str
    encodings: tuple[tuple[int, int], ...]  # (mask, value): of a word of one of its instructions


# Encodings: Arm Architecture Reference Manual for A-profile, DDI 0487, C4.1 "A64 instruction set encoding".
INSTRUCTION_SETS = (
    InstructionSet(
        name="fp16 arithmetic (FEAT_FP16)",
        flag="fp16",
        encodings=(
            (0x5FE00000, 0x1EE00000),  # scalar: floating-point data processing with type = 11
            (0xFFC00000, 0x1FC00000),  # ... with three sources
            (0x9FC00400, 0x0F000000),  # vector by element (FP16)
            (0xDFC00400, 0x5F000000),  # scalar by element (FP16)
            (0xBF7FFC00, 0x0E30C800),  # FMAXNMV, FMINNMV
            (0xBF7FFC00, 0x0E30F800),  # FMAXV, FMINV
            (0xFF3F8C00, 0x5E308800),  # scalar, pairwise
            (0x9FF0FC00, 0x0F10E400),  # SCVTF, UCVTF of fixed point
            (0x9FF0FC00, 0x0F10FC00),  # FCVTZS, FCVTZU to fixed point
            (0x9F60C400, 0x0E400400),  # vector, three the same (FP16)
            (0x9F7E0C00, 0x0E780800),  # vector, two registers (FP16)
            (0xDF60C400, 0x5E400400),  # scalar, three the same (FP16)
            (0x9FC0FC00, 0x0F00FC00),  # vector, FMOV immediate (FP16)
        ),
    ),
    InstructionSet(
        name="dot products (FEAT_DotProd)",
        flag="dotprod",
        encodings=((0x9FE0FC00, 0x0E809400), (0x9FC0F400, 0x0F80E000)),  # vector; by element
    ),
    InstructionSet(
        name="atomic instructions (FEAT_LSE)",
        flag="lse",
        encodings=((0x3F200C00, 0x38200000), (0x3FA07C00, 0x08A07C00)),  # LDADD ... SWP; CAS
    ),
    InstructionSet(name="SVE", flag="sve", encodings=((0x1E000000, 0x04000000),)),
)
# Conversions between half and single or double precision are encoded like half-precision arithmetic, but
# belong to the base set.
_BASE = ((0xFFFFFC00, 0x1EE24000), (0xFFFFFC00, 0x1EE2C000))
_BY_FLAG = {"fullfp16": "fp16"} | {entry.flag: entry.flag for entry in INSTRUCTION_SETS}
# Extensions that Armv8.1-A and later include.
_IMPLIED = (((8, 1), "lse"), ((8, 4), "dotprod"), ((9, 0), "sve"))
_ARCHITECTURE = re.compile(r"armv(\d)(?:\.(\d))?-a|v(\d)_?(\d)?a")


def instruction_set_of(word: int) -> InstructionSet | None:
    """The extension of a 32-bit instruction; None for the base set and unknown extensions."""

    def belongs(encodings: tuple[tuple[int, int], ...]) -> bool:
        return any(word & mask == value for mask, value in encodings)

    if belongs(_BASE):
        return None
    return next((entry for entry in INSTRUCTION_SETS if belongs(entry.encodings)), None)


def asked_for(flags: str) -> set[str]:
    """The extensions, as in a target's `features`, that a compiler's flags let it use."""
    found: set[str] = set()
    for word in re.findall(r"-m(?:arch|cpu)=(\S+)", flags):
        for part in word.split("+"):
            if part in _BY_FLAG:
                found.add(_BY_FLAG[part])
            elif match := _ARCHITECTURE.fullmatch(part):
                major, minor = match[1] or match[3], match[2] or match[4] or "0"
                found |= {name for version, name in _IMPLIED if (int(major), int(minor)) >= version}
    return found


def check_instruction_sets(flags: Mapping[str, str], target: Target) -> None:
    """Refuses a build if a file may use instructions that the target's core lacks. Kernels are exempt.

    `flags` are the compiler's, by source file. Raises TargetMismatchError with the set, a file and its flags.
    """
    if target.architecture != "aarch64":
        return
    has = set(target.features)
    for file, words in flags.items():
        if file.startswith(_KERNEL_SETS) and file.endswith("/implementation.cpp"):
            continue
        for entry in INSTRUCTION_SETS:
            if entry.flag in asked_for(words) - has:
                raise TargetMismatchError(
                    f"engine/{file} may use {entry.name}, which {target.name}'s core {target.cpu or ''} "
                    f"does not have: it is compiled with {_march(words)}",
                    hint="Remove that flag, or build for a target with this instruction set. Only the "
                    "kernels in engine/src/kernels/ are compiled for several sets.",
                )


def _march(flags: str) -> str:
    return " ".join(re.findall(r"-m(?:arch|cpu)=\S+", flags))
