"""Boxes that a detector found in one picture, before and after suppression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Boxes of one picture before suppression."""

    boxes: Floats  # [k, 4] centre x, centre y, width, height; fractions of the network's input
    probabilities: Floats  # [k, classes]; zero up to the threshold


@dataclass(frozen=True, kw_only=True)
class Detections:
    """The detections of one picture after suppression: a row per box and class."""

    boxes: Floats  # [k, 4] centre x, centre y, width, height; fractions of the picture
    classes: npt.NDArray[np.intp]  # [k]
    confidences: Floats  # [k]

    def __len__(self) -> int:
        return len(self.classes)

    def above(self, threshold: float) -> Detections:
        """The detections with a confidence above the threshold."""
        kept = self.confidences > threshold
        return Detections(
            boxes=self.boxes[kept], classes=self.classes[kept], confidences=self.confidences[kept]
        )

    def best(self, count: int) -> Detections:
        """The `count` most confident detections."""
        kept = np.argsort(-self.confidences, kind="stable")[:count]
        return Detections(
            boxes=self.boxes[kept], classes=self.classes[kept], confidences=self.confidences[kept]
        )

    def corners(self) -> npt.NDArray[np.float64]:
        """[k, 4] left, top, width, height as fractions."""
        boxes = self.boxes.astype(np.float64)
        boxes[:, :2] -= boxes[:, 2:] / 2
        return boxes


def join(parts: Sequence[Candidates]) -> Candidates:
    """The candidates of all heads of one picture, in the order of the heads."""
    return Candidates(
        boxes=np.concatenate([part.boxes for part in parts]),
        probabilities=np.concatenate([part.probabilities for part in parts]),
    )
