"""The document of a search, as the command prints it with --json, with a name in every place for one."""

from __future__ import annotations

from typing import Any

LAYERS = 6


def found_search(name: str = "", *, verified: bool = True, labels: bool = True, met: bool = True) -> Any:
    """A front of three policies for a board. `verified`: not interrupted; `met`: the second is the best."""
    front = [
        _row(ms, agreement, labels, verified) | {"best": met and place == 1, "cfg": None}
        for place, (ms, agreement) in enumerate([(4.0, 0.91), (5.0, 0.985), (7.0, 0.99)])
    ]
    return {
        "target": f"pi4{name}",
        "predicted": True,
        "threads": 1,
        "accuracy_metric": "top1" if labels else None,
        "images": 8,
        "evaluations": 30,
        "executed": 30,
        "limits": {"max_drop": 0.005, "min_agreement": 0.98, "max_ms": None, "max_memory_bytes": None},
        "uniform": [
            {"precision": precision, **_row(ms, agreement, labels, verified=False)}
            for precision, ms, agreement in (("fp32", 10.0, 1.0), ("fp16", 8.0, 0.995), ("int8", 3.5, 0.9))
        ],
        "front": front,
        "best": front[1] if met else None,
        "nearest": None,
        "best_layers": [
            {
                "index": index,
                "name": f"layer{index}{name}",
                "kind": "convolutional",
                "precision": "int8" if index % 2 else "fp32",
                "ms": 0.5 + index / 10,
            }
            for index in range(LAYERS if met else 0)
        ],
        "calibration": "ranges.json",
        "page": None,
    }


def _row(ms: float, agreement: float, labels: bool, verified: bool) -> dict[str, Any]:
    def figures(agreement: float) -> dict[str, Any]:
        change = agreement - 1 if labels else None
        accuracy = 0.9 + change if change is not None else None
        return {
            "similarity": agreement,
            "agreement": agreement,
            "sqnr_db": 30.0,
            "accuracy": accuracy,
            "accuracy_change": change,
        }

    return {
        "policy": {"default": "int8"},
        "layers": {"fp32": 3, "fp16": 0, "int8": 3},
        "ms": ms,
        "memory_bytes": 1e6 * ms,
        **figures(agreement),
        "verified": {"ms": 1.02 * ms, "memory_bytes": 1.05e6 * ms, **figures(agreement - 0.01)}
        if verified
        else None,
    }
