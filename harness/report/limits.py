"""What a recommended cell must keep to."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """None: no limit."""

    max_drop: float | None = None  # of the accuracy, as a fraction, from fp32's
    min_fps: float | None = None
    max_memory: float | None = None  # bytes

    def __bool__(self) -> bool:
        return any(limit is not None for limit in vars(self).values())

    def __str__(self) -> str:
        """As the options of the command line."""
        scaled = (
            ("--max-drop", self.max_drop, 0.01),
            ("--min-fps", self.min_fps, 1),
            ("--max-memory", self.max_memory, _MIB),
        )
        return " ".join(f"{name} {value / unit:g}" for name, value, unit in scaled if value is not None)


UNLIMITED = Limits()
