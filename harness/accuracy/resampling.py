"""A bootstrap over the pictures: accuracy on resamples drawn with replacement.

All policies of a model are scored on the same resamples. The variation of the difference between two policies
gives its confidence interval (a paired bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap,
1993, chapters 8 and 13).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 400  # give a standard error to 4 %
FEWEST_PICTURES = 20
_NORMAL = 1.96  # standard errors on either side hold 95 %
_SEED = 11
_RECALLS = np.linspace(0, 1, 101)  # as in COCO
_ELEMENTS = 1 << 22  # of temporary arrays

Counts = npt.NDArray[np.int16]


@dataclass(frozen=True)
class ClassMatches:
    """The detections of one class in all pictures, most confident first, without those that COCO ignores."""

    pictures: npt.NDArray[np.intp]  # [detections], index of the picture
    hits: npt.NDArray[np.bool_]  # [detections], whether it finds a box
    boxes: npt.NDArray[np.intp]  # [pictures], number of labelled boxes


def draws(pictures: int) -> Counts:
    """How often each picture is in each resample, [RESAMPLES, pictures]; the same in every call."""
    random = np.random.default_rng(_SEED)
    rows = [np.bincount(random.integers(0, pictures, pictures), minlength=pictures) for _ in range(RESAMPLES)]
    return np.array(rows, np.int16)


def resampled_fraction(hits: npt.NDArray[np.bool_], drawn: Counts) -> npt.NDArray[np.float64]:
    """The fraction of pictures that are hits, in each resample."""
    found: npt.NDArray[np.float64] = np.einsum("ij,j->i", drawn, hits, dtype=np.int64) / len(hits)
    return found


def resampled_mean(values: npt.NDArray[np.float64], drawn: Counts) -> npt.NDArray[np.float64]:
    """The mean of a value of each picture, in each resample."""
    found: npt.NDArray[np.float64] = np.einsum("ij,j->i", drawn, values, dtype=np.float64) / len(values)
    return found


def resampled_ap50(classes: Sequence[ClassMatches], drawn: Counts) -> npt.NDArray[np.float64]:
    """COCO's AP50 in each resample: the mean over the classes with boxes; NaN without boxes."""
    total = np.zeros(len(drawn))
    counted = np.zeros(len(drawn))
    for matches in classes:
        boxes = np.einsum("ij,j->i", drawn, matches.boxes, dtype=np.int64)
        step = max(_ELEMENTS // max(len(matches.pictures), 1), 1)
        for first in range(0, len(drawn), step):
            part = slice(first, first + step)
            total[part] += _average_precision(matches, drawn[part], boxes[part])
        counted += boxes > 0
    with np.errstate(invalid="ignore"):
        found: npt.NDArray[np.float64] = total / counted
    return found


def _average_precision(
    matches: ClassMatches, drawn: Counts, boxes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """AP50 of one class in some resamples; 0 without boxes."""
    if not matches.hits.any():
        return np.zeros(len(drawn))
    upto = drawn[:, matches.pictures].cumsum(axis=1, dtype=np.int64)[:, matches.hits]
    true = drawn[:, matches.pictures[matches.hits]].cumsum(axis=1, dtype=np.int64)
    precision = true / np.maximum(upto, 1)
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = true / np.maximum(boxes, 1)[:, None]
    reached = np.searchsorted(_RECALLS, recall.ravel(), side="right").reshape(recall.shape)
    newly = np.diff(reached, axis=1, prepend=0)  # recalls reached with this hit
    newly[boxes == 0] = 0
    found: npt.NDArray[np.float64] = (envelope * newly).sum(axis=1) / len(_RECALLS)
    return found


def kept(metric: str, values: npt.NDArray[np.float64], drawn: Counts, names: Sequence[str]) -> dict[str, Any]:
    """A resampled score as JSON values; `draws` identifies the resamples."""
    told = hashlib.sha256("\n".join(names).encode("utf-8", "surrogateescape"))
    told.update(drawn.tobytes())
    return {
        "metric": metric,
        "pictures": len(names),
        "draws": told.hexdigest()[:16],
        "values": [round(float(value), 6) for value in values if math.isfinite(value)],
    }


def reach(values: Sequence[float], others: Sequence[float] | None = None) -> float:
    """Half the 95 % interval of a score, or of its difference to another one with the same draws."""
    differences = np.asarray(values) - (0.0 if others is None else np.asarray(others))
    return _NORMAL * float(differences.std(ddof=1))
