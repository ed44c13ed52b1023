"""A point of a search, and the limits that it has to meet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a policy may lose. None: no limit."""

    max_drop: float | None = None  # of the accuracy, as a fraction, from fp32's
    min_agreement: float | None = None  # with fp32's own results, as a fraction
    max_ms: float | None = None
    max_memory: float | None = None  # bytes

    def without_accuracy(self) -> Limits:
        """The same for pictures without labels."""
        return replace(self, max_drop=None)

    def met(self, point: Point, fp32: Evaluation) -> bool:
        """Whether a point meets all."""
        return (
            (self.max_ms is None or point.milliseconds <= self.max_ms)
            and (self.max_memory is None or point.memory_bytes <= self.max_memory)
            and (self.min_agreement is None or point.evaluation.agreement >= self.min_agreement)
            and (self.max_drop is None or drop(point.evaluation, fp32) <= self.max_drop + 1e-9)
        )


@dataclass(frozen=True, kw_only=True)
class Point:
    """An assignment, with its time and memory by the models and its evaluation on the pictures of the search.
    `checked`: the memory is that of an inference."""

    assignment: Assignment
    milliseconds: float
    memory_bytes: float
    evaluation: Evaluation
    checked: bool = False


def drop(evaluation: Evaluation, fp32: Evaluation) -> float:
    """How much accuracy is lost, as a fraction; 0 without labels."""
    if evaluation.accuracy is None or fp32.accuracy is None:
        return 0.0
    return fp32.accuracy - evaluation.accuracy


def nearness(point: Point) -> tuple[float, float]:
    """How near a point is to fp32: the agreement first, then the noise."""
    return point.evaluation.agreement, -point.evaluation.noise
