"""Profiles and boards made up for tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from harness.config.board_data import BoardData, Cache, Coefficients
from harness.prediction.llvm import Llvm
from harness.prediction.profile import MAGIC

NOP = struct.pack("<I", 0xD503201F)

BOARD = BoardData(
    cores=2,
    clock_hz=1e9,
    copy_bytes_per_second=1e9,
    caches=(Cache(kib=32, ways=4), Cache(kib=512, ways=16, shared=True)),
    midr=0x410FD034,
    core_model="cortex-a53",
    coefficients=Coefficients(compute=1.0, memory=0.5, fitted_on="a test", median_error=0.05, error_p90=0.1),
    coefficients_all_cores=Coefficients(
        compute=1.5, memory=1.0, fitted_on="a test", median_error=0.1, error_p90=0.2
    ),
)

# block, runs; with misses and streamed misses of three levels where there are any
Row = tuple[int, int] | tuple[int, int, Sequence[int], Sequence[int]]


class Scripted(Llvm):
    """An LLVM to which every instruction is a nop."""

    def __init__(self) -> None:
        super().__init__(mc="none", mca="none", version=(19, 1, 7))

    def disassemble(self, words: Sequence[int]) -> dict[int, str]:
        return dict.fromkeys(words, "nop")


def write_profile(
    path: Path, blocks: Sequence[bytes], segments: Sequence[tuple[int, int, Sequence[Row]]]
) -> None:
    """Segments are marks, lines written back and rows."""
    data = bytearray(MAGIC)
    for block in blocks:
        data += struct.pack("<IIQ", 1, len(block) // 4, 0x1000) + block
    for mark, written_back, rows in segments:
        data += struct.pack("<IIQQ", 2, len(rows), mark, written_back)
        for row in rows:
            misses, streamed = row[2:] or ((0, 0, 0), (0, 0, 0))
            data += struct.pack("<QI6I", row[1], row[0], *misses, *streamed)
    path.write_bytes(data + struct.pack("<II", 3, 0))
