"""The algorithms that only an engine for the ablation has (docs/ablation.md): CMake's option MPE_ABLATION."""

from __future__ import annotations

from collections.abc import Iterable

# As in engine/src/kernels/classical/technique.h.
ALGORITHMS = (
    *("plain", "reordered", "tiled", "unrolled", "simd"),
    *("im2col", "channel-last", "channel-major", "in-place", "winograd"),
)


def needs_ablation(algorithms: Iterable[str | None]) -> bool:
    """Whether an engine that is to run these algorithms has to be built for the ablation."""
    return any(algorithm in ALGORITHMS for algorithm in algorithms)
