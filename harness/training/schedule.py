"""How fast a training learns, and which of its epochs it undoes."""

from __future__ import annotations

import math
from dataclasses import dataclass

_WARM_UP = 10  # steps, in which Adam learns how large gradients are
_TOLERATED = 1.25  # times the least loss: an epoch that ends with more is undone
_BACK_OFF = 0.5  # of the rate, afterwards


@dataclass(kw_only=True)
class Schedule:
    """Learns from the losses on the pictures held out."""

    rate: float  # at its highest
    least: float = math.inf  # loss so far

    def rate_at(self, part: float, step: int) -> float:
        """At a step, from 0, and a part of the training, to 1: a short rise, then half a cosine."""
        return self.rate * min((step + 1) / _WARM_UP, 0.5 * (1 + math.cos(math.pi * part)))

    def is_best(self, loss: float) -> bool:
        """Takes the loss of an epoch: whether it is the least so far."""
        better = loss < self.least
        self.least = min(loss, self.least) if math.isfinite(loss) else self.least
        return better

    def undoes(self, loss: float) -> bool:
        """Whether the epoch with this loss is to be undone. The rate then falls."""
        undone = not loss <= _TOLERATED * self.least
        self.rate *= _BACK_OFF if undone else 1.0
        return undone
