"""The document of sensitivities, as the command prints it with --json, with a name in every place for one."""

from __future__ import annotations

from typing import Any

LAYERS = 50  # more than a chart has


def found_sensitivity(name: str = "", *, labels: bool = True, path: bool = True) -> Any:
    """Of LAYERS layers in int8 and fp16, the last ones lose most."""
    layers = [
        _layer(index, name, precision, loss * (index + 1), labels)
        | {"ms": 0.5 if index else None, "gain": 0.01 * index if precision == "int8" else None}
        for precision, loss in (("int8", 0.01), ("fp16", 0.001))
        for index in reversed(range(LAYERS))
    ]
    return {
        "images": 8,
        "resize": "stretch",
        "accuracy_metric": "map50" if labels else None,
        "calibration": f"{name}ranges.json",
        "calibration_overlap": None,
        "executed": 30,
        "low": "int8",
        "high": "fp16",
        "uniform": [
            {"precision": precision, **_figures(loss, labels)}
            for precision, loss in (("fp32", 0.0), ("int8", 0.6), ("fp16", 0.02))
        ],
        "layers": sorted(layers, key=lambda row: float(row["similarity"])),
        "path": [_layer(index, name, "fp16", 0.3 - 0.1 * index, labels) for index in range(3 if path else 0)],
    }


def _layer(index: int, name: str, precision: str, loss: float, labels: bool) -> dict[str, Any]:
    shown = {"index": index, "name": f"layer{index}{name}", "kind": "pointwise", "precision": precision}
    return shown | _figures(loss, labels)


def _figures(loss: float, labels: bool) -> dict[str, Any]:
    return {
        "similarity": 1 - loss,
        "agreement": 1 - loss / 2,
        "sqnr_db": 10 / loss if loss else None,
        "accuracy": 0.5 - loss / 10 if labels else None,
        "accuracy_change": -loss / 10 if labels else None,
    }
