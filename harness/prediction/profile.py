"""Reads a profile of QEMU's plugin; device_images/qemu_plugin/block_profile.c describes the format."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError

LEVELS = 3
MAGIC = b"MPEBLK02"
RUN_ENDED = 7777778
LAYER_ENDED = 7780000
INPUT_CONVERTED = 7785000  # of a layer, between precisions; the engine has no network of 5000 layers
PART_ENDED = 7790001  # + the thread whose part of a parallel loop has ended
ALONE_ENDED = PART_ENDED - 1  # what one thread does before a parallel loop

_BLOCK, _SEGMENT, _FINISH = 1, 2, 3
_HEAD = struct.Struct("<II")
_ADDRESS = struct.Struct("<Q")
_SEGMENT_HEAD = struct.Struct("<QQ")
_ROW = np.dtype(
    [
        ("runs", "<u8"),
        ("block", "<u4"),
        ("misses", "<u4", LEVELS),
        ("streamed", "<u4", LEVELS),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The execution between two marks."""

    mark: int  # the mark at its end
    written_back: int  # cache lines, to memory
    blocks: npt.NDArray[np.int64]  # numbers of the executed blocks, [n]
    runs: npt.NDArray[np.int64]  # of each, [n]
    misses: npt.NDArray[np.int64]  # of each block in each cache level, without streams, [n, LEVELS]
    streamed: npt.NDArray[np.int64]  # misses that continue a stream, [n, LEVELS]
    loops: int = 0  # parallel loops, of which it has the slowest thread's part
    lines: int | None = None  # between the last level of cache and memory; None: those of its misses

    def lines_moved(self, levels: int) -> int:
        """Lines between the last of so many levels of cache and memory."""
        if self.lines is not None:
            return self.lines
        fetched = self.misses[:, levels - 1].sum() + self.streamed[:, levels - 1].sum()
        return int(fetched) + self.written_back

    @property
    def layer(self) -> int | None:
        """The index of its layer; None outside layers, and for a part of one."""
        if self.mark < LAYER_ENDED or self.mark >= ALONE_ENDED:
            return None
        return self.mark - (INPUT_CONVERTED if self.converts else LAYER_ENDED)

    @property
    def converts(self) -> bool:
        """Whether it converts the input of its layer between precisions, before the layer's own segment."""
        return INPUT_CONVERTED <= self.mark < ALONE_ENDED

    @property
    def thread(self) -> int | None:
        """The thread whose part of a parallel loop it is; None outside parallel loops."""
        return self.mark - PART_ENDED if self.mark >= PART_ENDED else None

    @property
    def before_loop(self) -> bool:
        """Whether a parallel loop begins at its end."""
        return self.mark == ALONE_ENDED


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One run of a program."""

    blocks: Sequence[bytes]  # instructions of each, four bytes per instruction
    segments: Sequence[Segment]
    addresses: Sequence[int] = ()  # of each block, in the program's memory
    threads: int = 1  # between which the work is divided

    @property
    def instructions(self) -> int:
        """Executed in all segments."""
        lengths = np.array([len(block) // 4 for block in self.blocks], dtype=np.int64)
        return int(sum(lengths[segment.blocks] @ segment.runs for segment in self.segments))


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """One inference, profiled with one thread, and with several where the program's threads allow it."""

    alone: Profile
    several: Profile | None = None  # the parts of all threads, or those of the first


def read_profile(path: Path) -> Profile:
    """Raises HarnessError with the offset for an invalid file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror}") from None
    return _Reader(path, data).read()


class _Reader:
    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        self.offset = 0
        self.blocks: list[bytes] = []
        self.addresses: list[int] = []
        self.segments: list[Segment] = []

    def read(self) -> Profile:
        if self._take(len(MAGIC)) != MAGIC:
            self.offset = 0
            raise self._error("not a block profile")
        while True:
            kind, count = _HEAD.unpack(self._take(_HEAD.size))
            if kind == _BLOCK:
                self.addresses += _ADDRESS.unpack(self._take(_ADDRESS.size))
                self.blocks.append(self._take(4 * count))
            elif kind == _SEGMENT:
                self._segment(count)
            elif kind == _FINISH and count == 0:
                break
            else:
                raise self._error(f"unknown kind of record {kind}", back=_HEAD.size)
        if self.offset != len(self.data):
            raise self._error(f"{len(self.data) - self.offset} bytes after the end")
        self._check_sums()
        return Profile(blocks=self.blocks, segments=self.segments, addresses=self.addresses)

    def _check_sums(self) -> None:
        """Each count is in range; checks their sums."""
        lengths = np.array([len(block) // 4 for block in self.blocks], dtype=np.float64)
        if sum(float(lengths[segment.blocks] @ segment.runs) for segment in self.segments) >= 1 << 53:
            raise self._error("the number of instructions is out of range")

    def _segment(self, count: int) -> None:
        mark, written_back = _SEGMENT_HEAD.unpack(self._take(_SEGMENT_HEAD.size))
        rows = np.frombuffer(self._take(count * _ROW.itemsize), dtype=_ROW)
        if count and rows["block"].max() >= len(self.blocks):
            raise self._error(
                f"a segment refers to block {rows['block'].max()} of {len(self.blocks)}",
                back=count * _ROW.itemsize,
            )
        # A run of years would not reach the first; the others mean that a count did not fit.
        limits = {"runs": 1 << 53, "misses": 0xFFFF_FFFF, "streamed": 0xFFFF_FFFF}
        if any(rows[name].max(initial=0) >= limit for name, limit in limits.items()):
            raise self._error("a count is out of range", back=count * _ROW.itemsize)
        if written_back >= 1 << 53:
            raise self._error("a count is out of range", back=count * _ROW.itemsize)
        self.segments.append(
            Segment(
                mark=mark,
                written_back=written_back,
                blocks=rows["block"].astype(np.int64),
                runs=rows["runs"].astype(np.int64),
                misses=rows["misses"].astype(np.int64),
                streamed=rows["streamed"].astype(np.int64),
            )
        )

    def _take(self, size: int) -> bytes:
        if self.offset + size > len(self.data):
            raise self._error(f"truncated: {size} more bytes expected")
        taken = self.data[self.offset : self.offset + size]
        self.offset += size
        return taken

    def _error(self, what: str, *, back: int = 0) -> HarnessError:
        return HarnessError(
            f"{self.path}: at byte {self.offset - back}: {what}",
            hint="The profile of an emulated run is incomplete; run it again.",
        )
