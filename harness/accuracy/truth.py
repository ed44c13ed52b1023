"""Labels of pictures: boxes for detectors, classes for classifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Truth:
    """One picture's objects."""

    boxes: npt.NDArray[np.float64]  # [k, 4] centre x, centre y, width, height; fractions
    classes: npt.NDArray[np.intp]  # [k]
    crowd: npt.NDArray[np.bool_]  # [k] regions of many objects, which COCO ignores
    areas: npt.NDArray[np.float64] | None = None  # [k] square pixels of COCO's segments; None: use the boxes


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture and its labels."""

    path: Path
    truth: Truth | None = None  # boxes, if known
    label: int | None = None  # class, if known
    labelled: bool = True  # False for a picture without a label file, which counts as background


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Pictures in a fixed order: that of their file names, or of the JSON's image ids."""

    path: Path
    kind: str  # "boxes", "classes" or "pictures" (no truth)
    pictures: tuple[Picture, ...]
    names: tuple[str, ...] = ()  # of the classes in order, where the data set has them

    def first(self, limit: int | None) -> Dataset:
        """The first `limit` pictures."""
        if limit is not None and limit < 1:
            raise ConfigurationError(f"a limit of {limit} pictures: at least 1 is needed")
        return replace(self, pictures=self.pictures[:limit])

    @property
    def unlabelled(self) -> int:
        """The number of pictures without a label file, which count as background."""
        return sum(not picture.labelled for picture in self.pictures)


def warning_of_unlabelled(path: Path, unlabelled: int, images: int) -> str:
    """A warning if most pictures have no label file, which is rarely intended; else ""."""
    if 2 * unlabelled <= images:
        return ""
    return (
        f"{path}: {unlabelled} of {images} pictures have no label file and count as background: "
        "detections in them count as wrong"
    )
