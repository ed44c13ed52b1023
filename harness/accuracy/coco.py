"""COCO's detection format: one JSON file of images, categories and annotations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from harness.accuracy.truth import Dataset, Picture, Truth
from harness.errors import ConfigurationError, hint_of
from harness.json_file import read_json

_LARGEST_FILE = 2 << 30  # bytes; COCO's own box files have up to 450 MB
_LARGEST_NUMBER = 1e9  # pixels, or square pixels
_NO_AREA = "Omit area if it is unknown; the area of the box is then used."
_FORMAT = (
    "COCO's detection format has images (id, file_name, width, height), categories (id) and annotations "
    "(image_id, category_id, bbox)."
)


def read_coco(path: Path, classes: int | None) -> Dataset:
    """Reads and checks a file; pictures are not opened, but must exist.

    Classes are numbered in the order of their ids, because COCO's ids have gaps. Raises ConfigurationError
    with the file and the place in it.
    """
    data = read_json(path, limit=_LARGEST_FILE, what="COCO's detection format")
    entries = _entries(path, data, "categories")
    ids = _ids(entries)
    categories = {category: index for index, category in enumerate(sorted(ids))}
    if classes is not None and len(categories) > classes:
        raise ConfigurationError(f"{path}: {len(categories)} categories, but the network has {classes}")
    images = _ids(_entries(path, data, "images"))
    if not images:
        raise ConfigurationError(f"{path}: lists no images")
    objects: dict[int, list[_Entry]] = {image: [] for image in images}
    for entry in _entries(path, data, "annotations"):
        image, category = entry.id("image_id"), entry.id("category_id")
        if image not in images:
            entry.wrong("image_id", f"unknown image {image}")
        if category not in categories:
            entry.wrong("category_id", f"unknown category {category}")
        objects[image].append(entry)
    pictures = tuple(
        Picture(
            path=_find(path, images[image].text("file_name")),
            truth=_truth(images[image], objects[image], categories),
        )
        for image in sorted(images)
    )
    names = [ids[category].data.get("name") for category in categories]
    return Dataset(
        path=path,
        kind="boxes",
        pictures=pictures,
        names=tuple(map(str, names)) if all(isinstance(name, str) for name in names) else (),
    )


def likely_annotations(files: Sequence[Path]) -> Path:
    """The JSON file that most likely has boxes to evaluate on."""

    def rank(file: Path) -> tuple[bool, bool]:
        return not file.name.startswith("instances"), "val" not in file.name

    return min(files, key=rank)


@dataclass(frozen=True)
class _Entry:
    """One object of the file, with its place for messages."""

    file: Path
    place: str  # for example annotations[3]
    data: Mapping[str, Any]

    def wrong(self, key: str, what: str, hint: str = "Correct the entry or remove it.") -> NoReturn:
        raise ConfigurationError(f"{self.file}: {self.place}.{key}: {what}", hint=hint)

    def get(self, key: str) -> Any:
        if key not in self.data:
            raise ConfigurationError(f"{self.file}: {self.place} has no {key}", hint=_FORMAT)
        return self.data[key]

    def id(self, key: str) -> int:
        value = self.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
            self.wrong(key, f"expected a whole number of 64 bits, found {_shown(value)}")
        return value

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str) or not value or "\0" in value:
            self.wrong(key, f"expected the name of a file, found {_shown(value)}")
        return value

    def number(self, key: str, value: Any, most: float = _LARGEST_NUMBER) -> float:
        """The number at the key, or in its list."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(key, f"expected a number, found {_shown(value)}")
        # Integers may be too large for a float, so compare. NaN compares false.
        if not -most <= value <= most:
            self.wrong(key, f"expected a number of at most {most:g}, found {_shown(value)}")
        return float(value)

    def size(self, key: str) -> float:
        value = self.number(key, self.get(key))
        if value <= 0:
            self.wrong(key, f"expected a positive size, found {_shown(value)}")
        return value

    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width, height in pixels."""
        value = self.get("bbox")
        if not isinstance(value, list) or len(value) != 4:
            self.wrong("bbox", f"expected [left, top, width, height], found {_shown(value)}")
        left, top, width, height = (self.number("bbox", part) for part in value)
        if width < 0 or height < 0:
            self.wrong(
                "bbox",
                f"the width and height {width:g} x {height:g} are negative",
                "A box is [left, top, width, height], not a pair of corners.",
            )
        return left, top, width, height

    def area(self, box: Sequence[float]) -> float:
        """Square pixels of the object's outline, or of its box if it has none."""
        if "area" not in self.data:
            return box[2] * box[3]
        if self.data["area"] is None:
            self.wrong("area", "expected a number, found null", _NO_AREA)
        value = self.number("area", self.data["area"], _LARGEST_NUMBER**2)
        if value < 0:
            self.wrong("area", f"expected an area of 0 or more, found {_shown(value)}", _NO_AREA)
        return value

    def crowd(self) -> bool:
        value = self.data.get("iscrowd", 0)
        if value not in (0, 1):
            self.wrong(
                "iscrowd",
                f"expected 0 or 1, found {_shown(value)}",
                "Use 1 for a region of many objects, 0 (or omit it) for a single one.",
            )
        return bool(value)


def _entries(path: Path, data: Any, key: str) -> Iterator[_Entry]:
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ConfigurationError(
            f"{path}: not COCO's detection format: the list {key} is missing", hint=_FORMAT
        )
    for number, entry in enumerate(found):
        place = f"{key}[{number}]"
        if not isinstance(entry, dict):
            raise ConfigurationError(
                f"{path}: {place}: expected an object, found {_shown(entry)}", hint=_FORMAT
            )
        yield _Entry(path, place, entry)


def _ids(entries: Iterator[_Entry]) -> dict[int, _Entry]:
    found: dict[int, _Entry] = {}
    for entry in entries:
        number = entry.id("id")
        if number in found:
            entry.wrong("id", f"{number} is already the id of {found[number].place}", "Make the ids unique.")
        found[number] = entry
    return found


def _truth(image: _Entry, entries: Sequence[_Entry], categories: Mapping[int, int]) -> Truth:
    width, height = image.size("width"), image.size("height")
    corners = [entry.box() for entry in entries]
    boxes = np.array(corners, np.float64).reshape(-1, 4)
    boxes[:, :2] += boxes[:, 2:] / 2
    boxes /= [width, height, width, height]
    return Truth(
        boxes=boxes,
        classes=np.array([categories[entry.id("category_id")] for entry in entries], np.intp),
        crowd=np.array([entry.crowd() for entry in entries], np.bool_),
        areas=np.array([entry.area(box) for entry, box in zip(entries, corners, strict=True)], np.float64),
    )


def _find(annotations: Path, name: str) -> Path:
    folder = annotations.parent
    split = annotations.stem.split("_", 1)[-1]  # instances_val2017 -> val2017
    places = [folder, folder / "images", folder.parent / split, folder.parent / "images"]
    for place in places:
        try:
            if (place / name).is_file():
                return place / name
        except OSError as error:
            raise ConfigurationError(
                f"{annotations}: the picture {name} cannot be read: {error.strerror}", hint=hint_of(error)
            ) from None
    raise ConfigurationError(
        f"{annotations}: the picture {name} was not found beside it or in "
        + ", ".join(str(place) for place in places[1:])
    )


def _shown(value: Any) -> str:
    """A value as JSON, shortened: numbers may have thousands of digits."""
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return "an infinite number or NaN"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
