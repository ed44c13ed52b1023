"""Properties of AArch64 instructions for the cost models, parsed from LLVM's disassembly."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Kind(enum.Enum):
    """The part of a core that executes it."""

    INTEGER = "integer"
    INTEGER_MULTIPLY = "integer multiply"
    INTEGER_DIVIDE = "integer divide"
    BRANCH = "branch"
    LOAD = "load"
    STORE = "store"
    PREFETCH = "prefetch"
    FLOAT = "float"  # adds, multiplies and compares, scalar or vector
    DIVIDE = "divide"  # and square roots, of floats
    VECTOR_MULTIPLY = "vector multiply"  # of integers
    DOT_PRODUCT = "dot product"
    VECTOR = "vector"  # everything else in vector registers
    NOTHING = "nothing"  # takes only an issue slot


ACCESSES = (Kind.LOAD, Kind.STORE)
# Kinds that occupy a vector pipeline.
VECTOR_OPERATIONS = (Kind.FLOAT, Kind.VECTOR_MULTIPLY, Kind.DOT_PRODUCT, Kind.VECTOR)

_REGISTER = re.compile(r"\b(?P<vector>[vqdshb])(?P<v>\d+)\b|\b(?P<general>[xw])(?P<x>\d+)\b|\bsp\b")
_WIDE = re.compile(r"\.(?:4s|16b|8h|2d)")
_VECTOR_DESTINATION = re.compile(r"v\d+\.|[vqdshb]\d+\b")
_BRANCH = re.compile(r"b|bl|br|blr|ret|b\..*|cbn?z|tbn?z")
_STRUCTURE = re.compile(r"(ld|st)[1-4]r?$")
_PAIRS = ("ldp", "ldnp", "stp", "stnp", "ldpsw", "ldxp", "ldaxp")
_FLOAT = ("fmla", "fmls", "fmul", "fadd", "fsub", "fmax", "fmin", "fmadd", "fmsub", "fnm", "fabd", "fcm")
_VECTOR_MULTIPLY = (
    "smlal",
    "smlsl",
    "smull",
    "umlal",
    "umlsl",
    "umull",
    "mul",
    "mla",
    "mls",
    "sqdmul",
    "sqrdml",
)
_ACCUMULATES = ("fmla", "fmls", "smlal", "smlsl", "umlal", "umlsl", "mla", "mls", "sdot", "udot")
_READS_FLAGS = ("cs", "cinc", "cinv", "cneg", "cset", "ccmp", "ccmn", "fcsel", "adc", "sbc", "b.")
_WRITES_FLAGS_ONLY = ("cmp", "cmn", "tst", "fcmp", "fcmpe", "ccmp", "ccmn", "fccmp")
# Also shown by the disassembler for words that are not instructions.
_NOTHING = ("nop", "hint", "yield", "bti")
_WRITES_FLAGS = ("adds", "subs", "ands", "bics", "negs", "adcs", "sbcs")


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """Registers are named x0, v0 and so on for all widths; the flags are `flags`."""

    kind: Kind
    wide: bool = False  # works on 128-bit vectors
    doublewords: int = 0  # 64-bit units moved by an access
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    accumulator: str = ""  # of a multiply-accumulate: read later than the other operands
    written_back: str = ""  # the base that an access also advances

    @property
    def loads_vector(self) -> bool:
        return self.kind is Kind.LOAD and any(register.startswith("v") for register in self.writes)


def parse_instruction(text: str) -> Instruction:
    """Reads one line of disassembly, as llvm-mc writes it: mnemonic, blank, operands."""
    mnemonic, _, operands = text.strip().replace("\t", " ").partition(" ")
    operands = operands.partition("//")[0].strip()
    if mnemonic in _NOTHING:
        return Instruction(kind=Kind.NOTHING)
    if mnemonic in ("prfm", "prfum"):
        return Instruction(kind=Kind.PREFETCH, reads=tuple(_registers(operands)))
    if mnemonic.startswith(("ld", "st")):
        return _access(mnemonic, operands)
    registers = _registers(operands)
    flags = ("flags",) if mnemonic.startswith(_READS_FLAGS) else ()
    if _BRANCH.fullmatch(mnemonic):
        return Instruction(kind=Kind.BRANCH, reads=(*registers, *flags))
    if mnemonic in _WRITES_FLAGS_ONLY:
        kind = Kind.FLOAT if mnemonic.startswith("f") else Kind.INTEGER
        return Instruction(kind=kind, writes=("flags",), reads=(*registers, *flags))
    writes, reads = tuple(registers[:1]), (*registers[1:], *flags)
    if mnemonic in _WRITES_FLAGS:
        writes += ("flags",)
    kind = _arithmetic(mnemonic, operands)
    accumulator = ""
    if writes and mnemonic.startswith(_ACCUMULATES) and kind is not Kind.INTEGER_MULTIPLY:
        accumulator = writes[0]
    elif _inserts_lane(mnemonic, operands):
        reads += writes
    return Instruction(
        kind=kind,
        wide=kind in VECTOR_OPERATIONS and _WIDE.search(operands) is not None,
        writes=writes,
        reads=reads,
        accumulator=accumulator,
    )


def _arithmetic(mnemonic: str, operands: str) -> Kind:
    if _VECTOR_DESTINATION.match(operands):
        if mnemonic.startswith(("fdiv", "fsqrt")):
            return Kind.DIVIDE
        if mnemonic.startswith(_FLOAT):
            return Kind.FLOAT
        if mnemonic.startswith(("sdot", "udot")):
            return Kind.DOT_PRODUCT
        return Kind.VECTOR_MULTIPLY if mnemonic.startswith(_VECTOR_MULTIPLY) else Kind.VECTOR
    if mnemonic in ("sdiv", "udiv"):
        return Kind.INTEGER_DIVIDE
    if mnemonic.startswith(
        ("mul", "mneg", "madd", "msub", "smull", "umull", "smadd", "umadd", "smulh", "umulh")
    ):
        return Kind.INTEGER_MULTIPLY
    return Kind.INTEGER


def _inserts_lane(mnemonic: str, operands: str) -> bool:
    """Whether it keeps the rest of the register that it writes."""
    return mnemonic in ("mov", "ins") and "[" in operands.partition(",")[0]


def _access(mnemonic: str, operands: str) -> Instruction:
    kind = Kind.LOAD if mnemonic.startswith("ld") else Kind.STORE
    # Registers (in braces for structures), then the address from the bracket on.
    at = operands.find("}") + 1 if "{" in operands else operands.find("[")
    moved, where = (operands[:at], operands[at:]) if at > 0 else (operands, "")
    moved_registers, address = _registers(moved), _registers(where)
    advances = "!" in where or "]," in where.replace(" ", "")
    writes, reads = (moved_registers, address) if kind is Kind.LOAD else ([], moved_registers + address)
    if kind is Kind.LOAD and re.match(r"\s*\[\d", where):  # one lane: the others stay
        reads = reads + moved_registers
    return Instruction(
        kind=kind,
        doublewords=_doublewords(mnemonic, moved),
        writes=tuple(writes),
        reads=tuple(reads),
        written_back=address[0] if advances and address else "",
    )


def _doublewords(mnemonic: str, moved: str) -> int:
    if _STRUCTURE.fullmatch(mnemonic):
        registers = len(re.findall(r"v\d+", moved))
        return registers * (2 if _WIDE.search(moved) and not mnemonic.endswith("r") else 1)
    return (2 if mnemonic in _PAIRS else 1) * (2 if moved.startswith("q") else 1)


def _registers(text: str) -> list[str]:
    found = []
    for match in _REGISTER.finditer(text):
        if match["vector"]:
            found.append(f"v{match['v']}")
        else:
            found.append(f"x{match['x']}" if match["general"] else "sp")
    return found
