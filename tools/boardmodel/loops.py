"""The inner loops of a profile with multiply-adds, compared with the core's peak throughput."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.prediction.costs import block_cycles
from harness.prediction.instruction import Kind, parse_instruction
from harness.prediction.profile import Profiled

if TYPE_CHECKING:
    from pathlib import Path

    from harness.prediction.predictor import Predictor
    from harness.prediction.profile import Profile

_WORD = 4
_LEAST_SHARE = 0.002  # of all cycles; smaller loops are ignored
_CONDITIONAL = {0x54: 19, 0x34: 19, 0x35: 19, 0xB4: 19, 0xB5: 19, 0x36: 14, 0x37: 14, 0xB6: 14, 0xB7: 14}


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The body of a loop that ends with a branch to its own start."""

    layers: tuple[int, ...]  # that execute it
    share: float  # of all cycles
    cycles: float  # per iteration
    multiply_adds: float  # of 128-bit vectors per iteration
    peak: float  # fraction of the core's multiply-adds per cycle
    assembly: tuple[str, ...]


def find_loops(profile: Profile, predictor: Predictor) -> list[Loop]:
    """The loops with multiply-adds and a relevant share of the cycles, largest share first."""
    runs, layers = _runs(profile)
    starts: dict[int, bytes] = {}
    for address, block in zip(profile.addresses, profile.blocks, strict=True):
        if len(block) > len(starts.get(address, b"")):
            starts[address] = block
    bodies: dict[bytes, tuple[int, set[int]]] = {}
    for number, block in enumerate(profile.blocks):
        body = _body(profile.addresses[number], block, starts) if runs[number] else None
        if body is not None:
            before = bodies.get(body, (0, set()))
            bodies[body] = (before[0] + int(runs[number]), before[1] | layers[number])
    cycles = block_cycles(list(bodies), predictor.core, predictor.llvm)
    total = predictor.work(Profiled(alone=profile)).cycles
    found = [
        _loop(body, rounds, where, float(cost), total, predictor)
        for (body, (rounds, where)), cost in zip(bodies.items(), cycles, strict=True)
        if rounds * cost >= _LEAST_SHARE * total
    ]
    return sorted((loop for loop in found if loop.multiply_adds), key=lambda loop: -loop.share)


def write_loops(loops: Sequence[Loop], folder: Path, predictor: Predictor) -> None:
    """Writes the assembly of each loop; the first line is the command that analyses it."""
    folder.mkdir(parents=True, exist_ok=True)
    rules = predictor.core.out_of_order
    # LLVM's nearest in-order core; the project's own rules for it are in toolchains/cores.
    cpu = rules.llvm_cpu if rules else "cortex-a55"
    for number, loop in enumerate(loops):
        path = folder / f"loop-{number}.s"
        lines = [f"// {predictor.llvm.command(cpu)} {path.name}", *loop.assembly]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _runs(profile: Profile) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Mapping[int, set[int]]]:
    runs = np.zeros(len(profile.blocks), dtype=np.int64)
    layers: dict[int, set[int]] = {number: set() for number in range(len(profile.blocks))}
    for segment in profile.segments:
        runs[segment.blocks] += segment.runs
        if segment.layer is not None:
            for number in segment.blocks.tolist():
                layers[number].add(segment.layer)
    return runs, layers


def _body(address: int, block: bytes, starts: Mapping[int, bytes]) -> bytes | None:
    """The code from the target of the block's last branch to that branch; None if it is not a loop.

    The emulator may have split it into several blocks, for example at the end of a page.
    """
    end = address + len(block)
    back = _branch_back(block[-_WORD:])
    if back is None:
        return None
    start = end - _WORD - back
    if start == address:
        return block
    parts = []
    at = start
    while at < address:
        part = starts.get(at)
        if part is None or _branches(part[-_WORD:]):
            return None
        parts.append(part)
        at += len(part)
    return b"".join([*parts, block]) if at == address else None


def _branches(word: bytes) -> bool:
    top = word[3]
    return top in _CONDITIONAL or top & 0x7C == 0x14 or top & 0xFE == 0xD6


def _branch_back(word: bytes) -> int | None:
    """Bytes from a conditional branch back to its target; None for other instructions."""
    bits = _CONDITIONAL.get(word[3])
    if bits is None:
        return None
    offset = (int(struct.unpack("<I", word)[0]) >> 5) & ((1 << bits) - 1)
    back = (1 << bits) - offset if offset >> (bits - 1) else 0
    return back * _WORD or None


def _loop(
    body: bytes, rounds: int, layers: set[int], cycles: float, total: float, predictor: Predictor
) -> Loop:
    words = struct.unpack(f"<{len(body) // _WORD}I", body)
    text = predictor.llvm.disassemble(words)
    multiply_adds = sum(map(_multiply_add, (text[word] for word in words)))
    return Loop(
        layers=tuple(sorted(layers)),
        share=rounds * cycles / total,
        cycles=cycles,
        multiply_adds=multiply_adds,
        peak=multiply_adds / cycles / predictor.core.multiply_adds,
        assembly=tuple(text[word] for word in words),
    )


def _multiply_add(text: str) -> float:
    """1 for an instruction on 128 bits, one half for less, 0 for one that does not multiply.

    Products of bytes have 16 bits and are added in pairs to 32 bits; this addition counts as part of them.
    """
    instruction = parse_instruction(text)
    if (
        instruction.kind in (Kind.VECTOR_MULTIPLY, Kind.DOT_PRODUCT)
        or (instruction.kind is Kind.FLOAT and instruction.accumulator)
        or text.startswith(("sadalp", "uadalp"))
    ):
        return 1.0 if instruction.wide else 0.5
    return 0.0
