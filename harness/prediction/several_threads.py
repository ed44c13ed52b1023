"""The profile of several threads: the cycles of their parts, and the memory traffic of one thread.

The engine lets one thread execute the parts of all, one after the other. On a board they run at the same
time: a parallel loop takes as long as its slowest part, and what one thread reads from memory the others find
in the shared cache. In turn they would read it again, so the traffic is that of another run, with one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.prediction.profile import LEVELS, Profile, Segment


def joined(alone: Profile, several: Profile, threads: int, levels: int) -> Profile:
    """A profile with the lines that `alone` moved between the last of so many levels of cache and memory, and
    with all else of `several`, which has the parts of so many threads, or those of the first of them."""
    return Profile(
        blocks=several.blocks,
        segments=[
            *(_moving(segment, segment.lines_moved(levels)) for segment in alone.segments),
            *(replace(segment, lines=0) for segment in several.segments),
        ],
        addresses=several.addresses,
        threads=threads,
    )


def _moving(segment: Segment, lines: int) -> Segment:
    """A segment without instructions."""
    none = np.zeros((0, LEVELS), np.int64)
    return replace(segment, blocks=none[:, 0], runs=none[:, 0], misses=none, streamed=none, lines=lines)


def critical_path(segments: Sequence[Segment], cycles: Callable[[Segment], float]) -> Iterator[Segment]:
    """The segments with the slowest part of each parallel loop alone. Each has the mark of its layer."""
    kept: list[Segment] = []
    parts: list[Segment] = []
    for segment in segments:
        if segment.thread is not None:
            parts.append(segment)
            continue
        if parts:
            kept.append(replace(max(parts, key=cycles), loops=1))
            parts = []
        kept.append(segment)
        if not segment.before_loop:
            yield from (replace(each, mark=segment.mark) for each in kept)
            kept = []
