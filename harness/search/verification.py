"""Checks the points of a search: on other pictures, and with time and memory of whole inferences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import console
from harness.search.evaluation import Evaluation
from harness.search.evaluator import Evaluator
from harness.search.layer_timer import LayerTimer
from harness.search.point import Point


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A point with its figures on the other pictures."""

    point: Point
    evaluation: Evaluation
    fp32: Evaluation  # on these pictures
    milliseconds: float  # of the whole inference
    memory_bytes: float  # the most of all inferences


def verify(points: Sequence[Point], evaluator: Evaluator, timer: LayerTimer) -> list[Verified]:
    """In the order of the points. `evaluator` has the pictures that the search did not see."""
    assignments = [evaluator.uniform("fp32"), *(point.assignment for point in points)]
    with console.progress("verifying on other pictures", total=len(assignments)) as bar:
        fp32, *evaluations = evaluator.evaluate(assignments, bar)
    times = timer.time(assignments[1:])
    return [
        Verified(
            point=point,
            evaluation=evaluation,
            fp32=fp32,
            milliseconds=timed.milliseconds,
            memory_bytes=max(timed.memory_bytes, point.memory_bytes if point.checked else 0),
        )
        for point, evaluation, timed in zip(points, evaluations, times, strict=True)
    ]
