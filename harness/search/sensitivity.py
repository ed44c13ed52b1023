"""What each layer loses in a low precision: alone, among others, and along a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import console
from harness.config.darknet_cfg import PRECISIONS
from harness.search.evaluation import Evaluation
from harness.search.evaluator import Evaluator

LOW_PRECISIONS = tuple(reversed(PRECISIONS[1:]))  # lowest first

# Layers that are evaluated again for each step of the path: those with the largest gains when last evaluated.
RESCORED = 8


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """An evaluation that changes one layer."""

    layer: int
    precision: str  # of this layer
    evaluation: Evaluation


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The sensitivities of a network's layers."""

    low: str  # the precision from which layers are raised
    high: str  # and to which
    uniform: dict[str, Evaluation]  # all layers in one precision; fp32 is the first
    alone: tuple[LayerRow, ...]  # this layer in a low precision, the others in fp32; largest loss first
    raised: tuple[LayerRow, ...]  # this layer in `high`, the others in `low`; largest gain first
    path: tuple[LayerRow, ...]  # from all in `low`: each step raises one more layer to `high`


def measure(evaluator: Evaluator, precisions: Sequence[str], steps: int) -> Sensitivity:
    """The sensitivities to these low precisions, with a path of at most `steps` layers.

    Layers are raised from the lowest of the precisions to the next one, or to fp32 if there is only one.
    """
    lowered = [precision for precision in LOW_PRECISIONS if precision in precisions]
    low, high = (*lowered, "fp32")[:2]
    uniform = dict(zip(("fp32", *lowered), _uniform(evaluator, lowered), strict=True))
    alone = [row for precision in lowered for row in _each(evaluator, "fp32", precision)]
    raised = sorted(_each(evaluator, low, high), key=_similarity, reverse=True)
    return Sensitivity(
        low=low,
        high=high,
        uniform=uniform,
        alone=tuple(sorted(alone, key=_similarity)),
        raised=tuple(raised),
        path=tuple(_path(evaluator, uniform[low], low, raised, steps)) if steps else (),
    )


def _uniform(evaluator: Evaluator, lowered: Sequence[str]) -> list[Evaluation]:
    assignments = [evaluator.uniform(precision) for precision in ("fp32", *lowered)]
    with console.progress("all layers in one precision", total=len(assignments)) as bar:
        return evaluator.evaluate(assignments, bar)


def _each(evaluator: Evaluator, around: str, precision: str) -> list[LayerRow]:
    """One layer at a time in a precision, the others in the precision `around`."""
    base = evaluator.uniform(around)
    assignments = [base.changed({layer: precision}) for layer in evaluator.layers]
    with console.progress(f"one layer in {precision}, others {around}", total=len(assignments)) as bar:
        found = evaluator.evaluate(assignments, bar)
    return [
        LayerRow(layer=layer, precision=precision, evaluation=evaluation)
        for layer, evaluation in zip(evaluator.layers, found, strict=True)
    ]


def _path(
    evaluator: Evaluator, start: Evaluation, low: str, raised: Sequence[LayerRow], steps: int
) -> list[LayerRow]:
    """Raises one layer after another, each time the one that makes the outputs most similar to fp32's.

    The gain of a layer depends on what is raised already, so the RESCORED layers with the largest last known
    gains are evaluated again for each step.
    """
    assignment, reached = evaluator.uniform(low), start
    gains = {row.layer: row.evaluation.similarity - start.similarity for row in raised}
    high = {row.layer: row.precision for row in raised}
    path: list[LayerRow] = []
    with console.progress("path", total=min(steps, len(gains))) as bar:
        while len(path) < steps and gains:
            candidates = sorted(gains, key=lambda layer: gains[layer], reverse=True)[:RESCORED]
            found = evaluator.evaluate([assignment.changed({layer: high[layer]}) for layer in candidates])
            gains |= {
                layer: evaluation.similarity - reached.similarity
                for layer, evaluation in zip(candidates, found, strict=True)
            }
            best, reached = max(zip(candidates, found, strict=True), key=lambda pair: pair[1].similarity)
            assignment = assignment.changed({best: high[best]})
            del gains[best]
            path.append(LayerRow(layer=best, precision=high[best], evaluation=reached))
            bar.advance()
    return path


def _similarity(row: LayerRow) -> float:
    return row.evaluation.similarity
