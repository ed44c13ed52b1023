"""The grid of a quantised tensor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """The grid of a quantised tensor: real = scale * (stored - zero point).

    `zero_points` are those of signed storage: 128 less than in a file with uint8. With several scales, each
    belongs to an index of `axis`.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0
    bits: int = 8

    @property
    def per_tensor(self) -> bool:
        return len(self.scales) == 1

    def bounds(self) -> tuple[list[float], list[float]]:
        """The least and the largest real number for each scale."""
        half = 1 << (self.bits - 1)
        pairs = list(zip(self.scales, self.zero_points, strict=True))
        return [scale * (-half - zero) for scale, zero in pairs], [
            scale * (half - 1 - zero) for scale, zero in pairs
        ]
