"""The algorithms that only an engine for the ablation has (docs/ablation.md): CMake's option MPE_ABLATION."""

from __future__ import annotations

from collections.abc import Iterable

# As in engine/src/kernels/classical/technique.h.
ALGORITHMS = (
    *("plain", "reordered", "tiled", "unrolled", "simd"),
    *("im2col", "channel-last", "channel-major", "in-place", "winograd"),
)


def needs_ablation(algorithms: Iterable[str | None]) -> bool:
    """Whether only an engine that is built for the ablation can run these algorithms."""
    return any(algorithm in ALGORITHMS for algorithm in algorithms)
