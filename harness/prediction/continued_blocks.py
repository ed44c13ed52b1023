"""Joins blocks that QEMU divided, though no instruction branches there.

QEMU ends a block at the end of a page of memory, and where the code that it makes of the block would become
too long. The core executes on: a loop over such a place is one loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.prediction.profile import Profile

_MOST_BYTES = 2048  # that are joined to a block
# Mask and value of the instructions that end a block of the program.
_ENDS = (
    (0x7C000000, 0x14000000),  # b, bl
    (0xFE000000, 0x54000000),  # b.cond
    (0x7E000000, 0x34000000),  # cbz, cbnz
    (0x7E000000, 0x36000000),  # tbz, tbnz
    (0xFE000000, 0xD6000000),  # br, blr, ret
    (0xFF000000, 0xD4000000),  # svc, brk
)


def continuations(profile: Profile, numbers: Sequence[int]) -> list[bytes]:
    """The instructions that are always executed after each of these blocks; none after a branch."""
    starting_at = {address: number for number, address in enumerate(profile.addresses)}
    found: list[bytes] = []
    for number in numbers:
        after = b""
        end = number
        while profile.addresses and not _branches(profile.blocks[end]):
            following = starting_at.get(profile.addresses[end] + len(profile.blocks[end]))
            if following is None or len(after) + len(profile.blocks[following]) > _MOST_BYTES:
                break
            after += profile.blocks[following]
            end = following
        found.append(after)
    return found


def _branches(block: bytes) -> bool:
    last = int.from_bytes(block[-4:], "little")
    return any(last & mask == value for mask, value in _ENDS)
