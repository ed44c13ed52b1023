"""The JSON rows of sensitivities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.config.darknet_cfg import DarknetCfg
from harness.search.evaluation import Evaluation
from harness.search.sensitivity import LayerRow, Sensitivity


def uniform_rows(found: Sensitivity) -> list[dict[str, Any]]:
    """A row per precision in which all layers are: fp32 first."""
    return [
        {"precision": precision, **_figures(evaluation, found)}
        for precision, evaluation in found.uniform.items()
    ]


def layer_rows(
    cfg: DarknetCfg, found: Sensitivity, times: Mapping[str, Mapping[int, float]]
) -> list[dict[str, Any]]:
    """A row per layer and precision, the largest loss first. `times`: milliseconds by precision and layer."""
    before = found.uniform[found.low].similarity
    gains = {row.layer: row.evaluation.similarity - before for row in found.raised}
    return [
        _layer(cfg, row, found)
        | {
            "ms": times[row.precision].get(row.layer),
            "gain": gains[row.layer] if row.precision == found.low else None,
        }
        for row in found.alone
    ]


def path_rows(cfg: DarknetCfg, found: Sensitivity) -> list[dict[str, Any]]:
    """A row per step of the path."""
    return [_layer(cfg, row, found) for row in found.path]


def _layer(cfg: DarknetCfg, row: LayerRow, found: Sensitivity) -> dict[str, Any]:
    layer = cfg.layers[row.layer]
    kind = "depthwise" if layer.depthwise else "pointwise" if layer.pointwise else layer.kind
    return {
        "index": layer.index,
        "name": layer.given_name or layer.name,
        "kind": kind,
        "precision": row.precision,
        **_figures(row.evaluation, found),
    }


def _figures(evaluation: Evaluation, found: Sensitivity) -> dict[str, Any]:
    before = found.uniform["fp32"].accuracy
    change = None if evaluation.accuracy is None or before is None else evaluation.accuracy - before
    return {
        "similarity": evaluation.similarity,
        "agreement": evaluation.agreement,
        "sqnr_db": evaluation.sqnr_db,
        "accuracy": evaluation.accuracy,
        "accuracy_change": change,
    }
