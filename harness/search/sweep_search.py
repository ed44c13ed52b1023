"""Searches the policy of a sweep's variant, as `harness search` does."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from harness import console
from harness.config.sweep import Variant
from harness.config.targets import Target
from harness.errors import HarnessError
from harness.runtimes.engine import HostEngine
from harness.search.board_search import BoardSearch, Request, search_board
from harness.search.found import row_of
from harness.search.point import Limits
from harness.search.precision_graph import WIDTH
from harness.tasks.base import TaskRunner

_MIB = 1 << 20


def search_variant(
    engine: HostEngine,
    variant: Variant,
    calibration: Path,
    target: Target,
    runner: TaskRunner | None = None,
) -> dict[str, Any]:
    """The best policy as JSON values: `layers`, the precision of each layer with weights by its index, and
    `best`, its figures with the keys of `harness search`.

    Raises HarnessError if no policy meets the limits, and as `search_board`.
    """
    settings, model = variant.search, variant.model
    assert settings is not None
    assert model.dataset is not None
    request = Request(
        cfg=model.cfg,
        weights=model.weights,
        calibration=calibration,
        dataset=model.dataset,
        target=target,
        limits=Limits(
            max_drop=settings.max_drop / 100,
            min_agreement=settings.min_agreement / 100,
            max_ms=1e3 / settings.min_fps if settings.min_fps else None,
            max_memory=settings.max_memory * _MIB if settings.max_memory else None,
        ),
        labels=model.labels,
        resize=model.resize,
        limit=model.limit,
        threads=settings.threads,
        seconds=settings.budget or math.inf,
    )
    found = search_board(request, engine, runner)
    if found.interrupted:
        raise KeyboardInterrupt
    return _best(found)


def _best(found: BoardSearch) -> dict[str, Any]:
    best, nearest = found.search.best, found.search.nearest
    if best is None:
        least = f": the least memory is {nearest.memory_bytes / _MIB:.2f} MiB" if nearest else ""
        raise HarnessError(f"no policy meets the limits of the search{least}")
    (verified,) = [each for each in found.verified if each.point == best]
    counts = Counter(best.assignment.values())
    layers = ", ".join(f"{counts[precision]} layers {precision}" for precision in WIDTH if counts[precision])
    agreement = 100 * verified.evaluation.agreement
    console.log(
        f"found {layers}; {verified.milliseconds:.4g} ms, {agreement:.2f} % agree with fp32 on pictures that "
        "the search did not see"
    )
    return {
        "layers": {str(layer): precision for layer, precision in best.assignment.items()},
        "best": row_of(best, found.search, verified),
        "evaluations": len(found.search.points),
    }
