"""The parts of a layer's predicted time."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("compute", "activation", "conversion", "memory")


@dataclass(frozen=True, kw_only=True)
class LayerParts:
    """Milliseconds of a layer's prediction; their sum is its time."""

    compute: float = 0.0
    activation: float = 0.0
    conversion: float = 0.0
    memory: float = 0.0  # traffic of the last level of cache; misses of the first one count where they happen

    @property
    def milliseconds(self) -> float:
        return self.compute + self.activation + self.conversion + self.memory

    @property
    def bound(self) -> str:
        """The largest part."""
        return max(PARTS, key=lambda part: getattr(self, part))

    def __add__(self, other: LayerParts) -> LayerParts:
        return LayerParts(
            compute=self.compute + other.compute,
            activation=self.activation + other.activation,
            conversion=self.conversion + other.conversion,
            memory=self.memory + other.memory,
        )
