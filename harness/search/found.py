"""What a search found, as JSON and as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config.darknet_cfg import DarknetCfg
from harness.files import write_together
from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation
from harness.search.evaluator import Evaluator
from harness.search.layer_timer import LayerTimer, Model
from harness.search.point import Point, drop
from harness.search.precision_graph import WIDTH
from harness.search.search import Search
from harness.search.verification import Verified

_RANGES = "ranges.json"


def search_document(
    search: Search,
    evaluator: Evaluator,
    verified: Sequence[Verified],
    written: Sequence[Path],
    timer: LayerTimer,
    target: str,
    network: DarknetCfg,
) -> dict[str, Any]:
    """The front, the fastest point first, and the best point. `evaluator` has the pictures of the search.
    `verified` and `written` are in the order of the front, or empty."""
    best, nearest = search.best, search.nearest
    alike = {precision: search.points[evaluator.uniform(precision)] for precision in WIDTH}
    front = [
        row_of(point, search, verified[place] if verified else None)
        | {
            "best": point is best,
            "nearest": point is nearest,
            "cfg": str(written[place]) if written else None,
        }
        for place, point in enumerate(search.front)
    ]
    limits = search.limits
    return {
        "target": target,
        "predicted": timer.predicted,
        "threads": timer.threads,
        "accuracy_metric": evaluator.metric,
        "images": len(evaluator.data.pictures),
        "evaluations": len(search.points),
        "executed": evaluator.executed,
        "limits": {
            "max_drop": limits.max_drop,
            "min_agreement": limits.min_agreement,
            "max_ms": limits.max_ms,
            "max_memory_bytes": limits.max_memory,
        },
        "uniform": [{"precision": name, **row_of(point, search, None)} for name, point in alike.items()],
        "front": front,
        "best": next((row for row in front if row["best"]), None),
        "nearest": next((row for row in front if row["nearest"]), None),
        "best_layers": [] if best is None else _layers(best, search, network),
    }


def _layers(point: Point, search: Search, network: DarknetCfg) -> list[dict[str, Any]]:
    """Each layer with its time by the latency model, and the precision in which it works; without weights,
    that in which its output is stored."""
    latency = search.latency
    labels = point.assignment.labels()[None]
    executed = latency.graph.executed(labels)
    stored = latency.graph.stored(executed)
    return [
        {
            "index": layer.index,
            "name": layer.given_name or layer.name,
            "kind": layer.kind,
            "precision": WIDTH[(executed if layer.index in point.assignment else stored)[0, layer.index]],
            "ms": float(milliseconds),
        }
        for layer, milliseconds in zip(network.layers, latency.by_layer(labels)[0], strict=True)
    ]


def row_of(point: Point, search: Search, verified: Verified | None) -> dict[str, Any]:
    """A point's policy and figures, in JSON."""
    counts = Counter(point.assignment.values())
    return {
        "policy": _policy(point.assignment),
        "layers": {precision: counts[precision] for precision in WIDTH},
        "ms": point.milliseconds,
        "memory_bytes": point.memory_bytes,
        **_figures(point.evaluation, search.fp32),
        "verified": None
        if verified is None
        else {
            "ms": verified.milliseconds,
            "memory_bytes": verified.memory_bytes,
            **_figures(verified.evaluation, verified.fp32),
        },
    }


def _figures(evaluation: Evaluation, fp32: Evaluation) -> dict[str, Any]:
    return {
        "similarity": evaluation.similarity,
        "agreement": evaluation.agreement,
        "sqnr_db": evaluation.sqnr_db,
        "accuracy": evaluation.accuracy,
        "accuracy_change": None if evaluation.accuracy is None else 0.0 - drop(evaluation, fp32),
    }


def _policy(assignment: Assignment) -> dict[str, Any]:
    """As a sweep file has it: the most frequent precision, and the layers in others."""
    ((default, _),) = Counter(assignment.values()).most_common(1)
    layers = {layer: precision for layer, precision in assignment.items() if precision != default}
    return {"default": default} | ({"layers": layers} if layers else {})


def write_policies(folder: Path, model: Model, points: Sequence[Point]) -> list[Path]:
    """Writes a policy file and a cfg for each point, and the ranges of int8; returns the cfgs' paths.

    Raises ConfigurationError if the folder cannot be written.
    """
    contents: dict[str, bytes] = {}
    if model.calibration:
        contents[_RANGES] = model.calibration.read_bytes()
    names = [f"policy-{number}" for number in range(1, len(points) + 1)]
    for name, point in zip(names, points, strict=True):
        contents[f"{name}.yaml"] = _policy_text(point.assignment, model).encode()
        contents[f"{name}.cfg"] = point.assignment.applied(model.network).text.encode("latin-1")
    write_together(folder, contents)
    return [folder / f"{name}.cfg" for name in names]


def _policy_text(assignment: Assignment, model: Model) -> str:
    policy: Mapping[str, Any] = _policy(assignment)
    lines = [f"default: {policy['default']}"]
    if "layers" in policy:
        lines.append("layers:")
        for layer, precision in policy["layers"].items():
            described = model.network.layers[layer]
            name = described.given_name or described.name
            lines.append(f"  {layer}: {precision}  # {name.encode('ascii', 'replace').decode()}")
    return "\n".join(lines) + "\n"
