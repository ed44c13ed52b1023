"""Searches the precision of each layer: the fastest assignment that loses no more than allowed.

1. Each layer alone in fp16 and in int8 gives the noise that it adds to the outputs. Noise powers of layers
   add up, so they are the losses of an integer programme. If time is short, only the changes that save most.
2. The programme gives the fastest assignment for a range of noise budgets. These are evaluated: what counts
   against the limits is the real loss, not the sum.
3. Between the largest budget that meets the limits and the smallest that does not, further budgets are tried.
4. From the fastest assignment that meets the limits, single layers are lowered and evaluated again, as long
   as one of them still meets the limits.
5. A limit of memory bounds the programme and the single layers by a model. The best assignment is then run:
   if it needs more than the limit, the model is raised and the stages 2 to 4 are repeated.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np

from harness import console
from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation
from harness.search.latency import LatencyModel
from harness.search.memory import MemoryModel
from harness.search.point import Limits, Point, nearness
from harness.search.precision_graph import FP32, WIDTH, Labels
from harness.search.programme import fastest

T = TypeVar("T")

_BUDGETS = 12  # each half of the one before
_NARROWED = 3  # rounds between two budgets
_AT_ONCE = 2  # budgets in such a round
_LOWERED = 8  # layers that are tried in each step of the last stage
_NOISE_SHARE = 0.6  # of the time, at most, for single layers
_BETWEEN_CHECKS = 8  # evaluations between two looks at the clock, if fewer than half of them run at once
_SAME_TIME = 0.01  # of the time of a point on the front
_LEAST_NOISE = 1e-12  # of a layer in a low precision: rounding may hide it, but it is not free


class _TimeOver(Exception):  # noqa: N818 - not an error
    """The time of the search, or of a stage, is over."""


class Evaluates(Protocol):
    """Evaluates assignments; `Evaluator` does."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers with weights."""

    @property
    def at_once(self) -> int:
        """How many evaluations run at once."""

    def uniform(self, precision: str) -> Assignment: ...
    def evaluate(
        self, assignments: Sequence[Assignment], progress: console.Progress | None = None
    ) -> list[Evaluation]: ...


@dataclass
class Search:
    """A search of one model for one board. `points` has what was evaluated so far, also after Ctrl-C.
    `needed` runs an inference of an assignment and says how many bytes it needs."""

    evaluator: Evaluates
    latency: LatencyModel
    memory: MemoryModel
    limits: Limits
    needed: Callable[[Assignment], float]
    seconds: float = float("inf")
    points: dict[Assignment, Point] = field(default_factory=dict)

    def run(self) -> None:
        """Searches until nothing better is found or the time is over."""
        begin, self._end = time.monotonic(), float("inf")
        uniform = [self.evaluator.uniform(precision) for precision in WIDTH]
        with console.progress("all layers in one precision", total=len(uniform)) as bar:
            self._evaluate(uniform, bar)
        with contextlib.suppress(_TimeOver):
            self._end = begin + self.seconds * _NOISE_SHARE
            self._measure_noise()
        self._end = begin + self.seconds
        self._improve()
        while not self._memory_holds():
            self._improve()

    @property
    def fp32(self) -> Evaluation:
        """fp32's own evaluation."""
        return self.points[self.evaluator.uniform("fp32")].evaluation

    @property
    def best(self) -> Point | None:
        """The fastest point that meets the limits; None if none does."""
        met = [point for point in self.points.values() if self.limits.met(point, self.fp32)]
        return min(met, key=lambda point: point.milliseconds, default=None)

    @property
    def nearest(self) -> Point | None:
        """If no point meets the limit of memory: the one that needs least."""
        limit = self.limits.max_memory
        least = min(self.points.values(), key=lambda point: (point.memory_bytes, point.milliseconds))
        return None if limit is None or least.memory_bytes <= limit else least

    @property
    def front(self) -> list[Point]:
        """The best point, or the nearest one, and those that no other one beats in time and agreement, the
        fastest first. A point that only gains a hundredth of the time over a better one is left out."""
        best = self.best or self.nearest
        found: list[Point] = []
        nearest_first = sorted(
            self.points.values(),
            key=lambda point: (nearness(point), -point.milliseconds),
            reverse=True,
        )
        for point in nearest_first:
            if not found or point.milliseconds < found[-1].milliseconds * (1 - _SAME_TIME):
                found.append(point)
        if best is not None and best not in found:
            found.append(best)
        return sorted(found, key=lambda point: point.milliseconds)

    def _improve(self) -> None:
        """Tries what the models promise, until the time is over."""
        with contextlib.suppress(_TimeOver):
            least, most = self._try_budgets()
            self._narrow(least, most)
            self._lower_layers()

    def _memory_holds(self) -> bool:
        """Whether an inference of the best point needs no more memory than the limit or, if there is no such
        point, the one with the least memory needs more. Otherwise corrects the model by the difference."""
        limit, best = self.limits.max_memory, self.best
        point = best or min(self.points.values(), key=lambda point: point.memory_bytes)
        if limit is None or point.checked or (best is None and point.memory_bytes <= limit):
            return True
        needed = self.needed(point.assignment)
        self.points[point.assignment] = replace(point, memory_bytes=needed, checked=True)
        if (needed <= limit) == (best is not None):
            return True
        self.memory = self.memory.raised(needed - point.memory_bytes)
        others = [other for other in self.points.values() if not other.checked]
        for other, memory in zip(others, self._memory_of([each.assignment for each in others]), strict=True):
            self.points[other.assignment] = replace(other, memory_bytes=memory)
        return False

    def _memory_of(self, assignments: Sequence[Assignment]) -> list[float]:
        """Bytes, by the model."""
        if not assignments:
            return []
        found = self.memory.bytes(np.stack([assignment.labels() for assignment in assignments]))
        return [float(each) for each in found]

    def _evaluate(
        self, assignments: Sequence[Assignment], bar: console.Progress | None = None
    ) -> list[Point]:
        """Raises _TimeOver when the time is over; what was evaluated until then is in `points`."""
        times = self.latency.milliseconds(np.stack([assignment.labels() for assignment in assignments]))
        memory = self._memory_of(assignments)
        found: list[Point] = []
        for some in _batches(assignments, self._between_checks()):
            if time.monotonic() >= self._end:
                raise _TimeOver
            for assignment, evaluation in zip(some, self.evaluator.evaluate(some, bar), strict=True):
                point = self.points.get(assignment)
                if point is None or not point.checked:
                    point = Point(
                        assignment=assignment,
                        milliseconds=float(times[len(found)]),
                        memory_bytes=memory[len(found)],
                        evaluation=evaluation,
                    )
                    self.points[assignment] = point
                found.append(point)
        return found

    def _measure_noise(self) -> None:
        """The noise of each layer alone in each precision, [layers with weights, WIDTH]; first that of the
        changes that save the most time. A precision that was not tried stays excluded."""
        fp32 = self.evaluator.uniform("fp32")
        layers = self.evaluator.layers
        self._noise = np.full((len(layers), len(WIDTH)), np.inf)
        self._noise[:, FP32] = 0
        changes = [
            (place, label) for place in range(len(layers)) for label in range(len(WIDTH)) if label != FP32
        ]
        assignments = [fp32.changed({layers[place]: WIDTH[label]}) for place, label in changes]
        times = self.latency.milliseconds(np.stack([assignment.labels() for assignment in assignments]))
        with console.progress("one layer at a time", total=len(assignments)) as bar:
            for some in _batches(np.argsort(times).tolist(), self._between_checks()):
                points = self._evaluate([assignments[number] for number in some], bar)
                for number, point in zip(some, points, strict=True):
                    self._noise[changes[number]] = max(point.evaluation.noise, _LEAST_NOISE)

    def _fastest(self, budgets: Sequence[float]) -> list[Point | None]:
        """The evaluated points of the fastest assignments within some noise budgets; None where no assignment
        is within both the budget and the limit of memory."""
        limit = self.limits.max_memory
        most_bytes = float("inf") if limit is None else limit
        found = []
        for budget in budgets:
            if time.monotonic() >= self._end:
                raise _TimeOver
            found.append(
                fastest(self.latency, self._noise, budget, memory=self.memory, most_bytes=most_bytes)
            )
        assignments = [self._assignment(each.assignment) for each in found if each is not None]
        if not assignments:
            return [None for _ in found]
        with console.progress("fastest within limits of noise", total=len(assignments)) as bar:
            points = iter(self._evaluate(assignments, bar))
        return [None if each is None else next(points) for each in found]

    def _try_budgets(self) -> tuple[float, float]:
        """The largest budget that meets the limits, or is too small for that of memory, and the next one
        above, which does not."""
        total = float(np.where(np.isfinite(self._noise), self._noise, 0).max(axis=1).sum())
        budgets = [total / 2**step for step in range(_BUDGETS)]
        for step, point in enumerate(self._fastest(budgets)):
            if point is None or self.limits.met(point, self.fp32):
                return budgets[step], budgets[max(step - 1, 0)]
        return budgets[-1] / 2, budgets[-1]

    def _narrow(self, least: float, most: float) -> None:
        for _ in range(_NARROWED):
            if most <= least * 1.01:
                return
            between = np.geomspace(least, most, _AT_ONCE + 2)[1:-1]
            for budget, point in zip(between, self._fastest(between.tolist()), strict=True):
                if point is None or self.limits.met(point, self.fp32):
                    least = budget
                else:
                    most = budget
                    break

    def _lower_layers(self) -> None:
        """Lowers one more layer at a time, the cheapest in noise for the time that it saves first."""
        refused: set[tuple[int, int]] = set()
        with console.progress("single layers", total=None) as bar:
            while (best := self.best) is not None:
                tried = self._most_promising(best, refused)
                if not tried:
                    return
                points = self._evaluate([self._assignment(labels) for _, labels in tried], bar)
                met = [point for point in points if self.limits.met(point, self.fp32)]
                refused |= {
                    change
                    for (change, _), point in zip(tried, points, strict=True)
                    if not self.limits.met(point, self.fp32)
                }
                if not met:
                    return

    def _most_promising(
        self, best: Point, refused: set[tuple[int, int]]
    ) -> list[tuple[tuple[int, int], Labels]]:
        """Changes of one layer that save time, with the assignments that they lead to."""
        labels = best.assignment.labels()
        changes = [
            (place, label)
            for place in range(len(labels))
            for label in range(len(WIDTH))
            if label != labels[place] and (place, label) not in refused
        ]
        if not changes:
            return []
        changed = np.repeat(labels[None], len(changes), axis=0)
        places, others = np.array(changes).T
        changed[np.arange(len(changes)), places] = others
        saved = best.milliseconds - self.latency.milliseconds(changed)
        added = self._noise[places, others] - self._noise[places, labels[places]]
        worth = saved / np.maximum(added, _LEAST_NOISE)
        limit = self.limits.max_memory
        fits = np.full(len(changes), True) if limit is None else self.memory.bytes(changed) <= limit
        order = [place for place in np.argsort(-worth) if saved[place] > 0 and fits[place]][:_LOWERED]
        return [(changes[place], changed[place]) for place in order]

    def _between_checks(self) -> int:
        return max(_BETWEEN_CHECKS, 2 * self.evaluator.at_once)

    def _assignment(self, labels: Labels) -> Assignment:
        return Assignment.of_labels(self.evaluator.layers, labels)


def _batches(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
