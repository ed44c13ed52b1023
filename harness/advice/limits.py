"""A user's limits, and a figure of a row beside its limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.report import limits

Kind = Literal["speed", "memory", "loss"]

ROUNDING = 1e-9  # of differences between accuracies


@dataclass(frozen=True, kw_only=True)
class Limits(limits.Limits):
    """What a result has to reach. The loss always has a limit."""

    max_drop: float = 0.005
    min_agreement: float = 0.98  # with fp32's own results, in place of max_drop where nothing reads them


@dataclass(frozen=True, kw_only=True)
class Check:
    """A figure beside its limit: frames per second, bytes, or the lost fraction of accuracy."""

    kind: Kind
    limit: float
    value: float | None
    interval: tuple[float, float] | None = None
    unknown: str = ""  # the reason, if there is no value

    @property
    def met(self) -> bool | None:
        """Whether the figure meets the limit; None: the figure is unknown. No loss exceeds a limit of 1."""
        if self.value is None:
            return True if self.kind == "loss" and self.limit >= 1 else None
        return self._beyond(self.value) <= ROUNDING

    @property
    def sure(self) -> bool | None:
        """Whether both ends of the interval are on the figure's side of the limit; None: no interval."""
        if self.value is None or self.interval is None:
            return None
        return {self._beyond(end) <= ROUNDING for end in self.interval} == {self.met}

    @property
    def miss(self) -> float:
        """How far the figure is beyond the limit, in its unit; 0 if it meets it or is unknown."""
        return 0.0 if self.value is None or self.met else self._beyond(self.value)

    def _beyond(self, value: float) -> float:
        return self.limit - value if self.kind == "speed" else value - self.limit
