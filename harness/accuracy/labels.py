"""YOLO labels: a text file per picture, a line per box."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from harness.accuracy.truth import Dataset, Picture, Truth
from harness.errors import ConfigurationError
from harness.files import read_text

# A centre may lie this far outside the picture, because labels are rounded.
_SLACK = 1e-3
_LARGEST_FILE = 16 << 20  # bytes


def labelled_dataset(path: Path, pairs: Iterable[tuple[Path, Path]], classes: int | None) -> Dataset:
    """The data set of (picture, label file) pairs. A picture without a label file is background.

    Raises ConfigurationError with file and line, and if no picture has a label file.
    """
    pairs = list(pairs)
    pictures = tuple(
        Picture(path=picture, truth=truth or _NOTHING, labelled=truth is not None)
        for picture, label in pairs
        for truth in [_labels_if_there(label, classes)]
    )
    if not any(picture.labelled for picture in pictures):
        raise ConfigurationError(
            f"{path}: no picture has a label file; expected for the first one: {pairs[0][1]}",
            hint="Put the labels of images/NAME.jpg into labels/NAME.txt.",
        )
    return Dataset(path=path, kind="boxes", pictures=pictures)


def label_file(picture: Path) -> Path:
    """The path of a picture's labels, as in Ultralytics: with `labels` in place of the last folder `images`
    of its path, else beside the picture."""
    parts = picture.absolute().parts
    for index in reversed(range(len(parts) - 1)):
        if parts[index] == "images":
            return Path(*parts[:index], "labels", *parts[index + 1 :]).with_suffix(".txt")
    return picture.with_suffix(".txt")


def read_labels(path: Path, classes: int | None = None) -> Truth:
    """One picture's labels. Raises ConfigurationError with file and line."""
    # Only a line feed ends a line, as in Darknet and Ultralytics; line numbers then match an editor's.
    lines = read_text(path, limit=_LARGEST_FILE, what="a file of labels").split("\n")
    rows = [
        _label(f"{path}:{number}", line.split(), classes)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    return Truth(
        boxes=np.array([box for _, box in rows], np.float64).reshape(-1, 4),
        classes=np.array([class_id for class_id, _ in rows], np.intp),
        crowd=np.zeros(len(rows), np.bool_),
    )


def check_class(where: str, class_id: int, classes: int | None) -> None:
    """Raises ConfigurationError for a class that the network does not have."""
    if class_id < 0 or (classes is not None and class_id >= classes):
        known = "" if classes is None else f"; the network has 0 to {classes - 1}"
        shown = class_id if abs(class_id) < 10**12 else "of that size"
        raise ConfigurationError(f"{where}: unknown class {shown}{known}")


def _labels_if_there(path: Path, classes: int | None) -> Truth | None:
    return read_labels(path, classes) if path.exists() or path.is_symlink() else None


def _label(where: str, words: list[str], classes: int | None) -> tuple[int, list[float]]:
    if len(words) != 5:
        raise ConfigurationError(
            f"{where}: a label has 5 numbers (class, centre x, centre y, width, height), not {len(words)}",
            hint="Outlines and key points are not supported." if len(words) > 5 else "",
        )
    try:
        # Unlike other readers of labels, Python accepts 1_000 and digits of other scripts.
        if not all(word.isascii() and "_" not in word for word in words):
            raise ValueError
        class_id, box = int(words[0]), [float(word) for word in words[1:]]
    except ValueError:
        raise ConfigurationError(f"{where}: not a class and four numbers: {' '.join(words)[:80]}") from None
    check_class(where, class_id, classes)
    if not all(map(math.isfinite, box)):
        raise ConfigurationError(f"{where}: a coordinate is infinite or NaN")
    centre, size = box[:2], box[2:]
    if not all(-_SLACK <= value <= 1 + _SLACK for value in centre):
        raise ConfigurationError(f"{where}: the centre {centre} lies outside the picture (0 to 1)")
    if not all(0 < value <= 1 + _SLACK for value in size):
        raise ConfigurationError(f"{where}: width and height {size} must be positive and at most 1")
    return class_id, box


_NOTHING = Truth(boxes=np.empty((0, 4)), classes=np.empty(0, np.intp), crowd=np.empty(0, np.bool_))
