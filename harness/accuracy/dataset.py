"""Pictures with their truth: boxes for detectors, classes for classifiers.

Three forms are recognised:

- a folder with `images/` and YOLO `labels/`: for every picture a text file of the same stem, a line a
  box, `class centre_x centre_y width height` as fractions of the picture; an empty file says that the
  picture shows nothing;
- COCO JSON: the file itself, or a folder that holds one (in itself or in `annotations/`); pictures are
  looked for beside it, in `images/`, or in the sibling folder named after the split;
- ImageNet-style file names: a folder of pictures whose names, or whose folders' names, start with a
  WordNet id (`n01440764_tench.JPEG`), which is looked up in a list of the ids in output order.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.accuracy.pictures import SUFFIXES
from harness.errors import ConfigurationError, cure_of, file_error
from harness.printable import is_utf8

LABEL_LISTS = ("imagenet.labels.list", "labels.list")

_WORDNET = re.compile(r"n\d{8}(?!\d)")
# How far a centre may lie outside the picture: labels are rounded, some by more than a digit.
_SLACK = 1e-3


@dataclass(frozen=True, kw_only=True)
class Truth:
    """One picture's objects."""

    boxes: npt.NDArray[np.float64]  # [k, 4] centre x, centre y, width, height; fractions
    classes: npt.NDArray[np.intp]  # [k]
    crowd: npt.NDArray[np.bool_]  # [k] regions of many objects, which COCO ignores
    areas: npt.NDArray[np.float64] | None = None  # [k] square pixels of COCO's segments; None: of the boxes


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture and what is known of it."""

    path: Path
    truth: Truth | None = None  # boxes, where there are any
    label: int | None = None  # class, where that is known


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Pictures in a fixed order: that of their file names, or of the JSON's image ids."""

    path: Path
    kind: str  # "boxes", "classes" or "pictures" (no truth)
    pictures: tuple[Picture, ...]

    def first(self, limit: int | None) -> Dataset:
        """The first `limit` pictures."""
        if limit is not None and limit < 1:
            raise ConfigurationError(f"a limit of {limit} pictures leaves nothing: give 1 or more")
        return Dataset(path=self.path, kind=self.kind, pictures=self.pictures[:limit])


def read_pictures(path: Path) -> list[Path]:
    """A dataset's pictures without their labels, which need not be there. Raises ConfigurationError."""
    images = path / "images"
    if path.is_dir() and (paths := _pictures_below(images if images.is_dir() else path)):
        return paths
    return [picture.path for picture in read_dataset(path).pictures]


def read_dataset(path: Path, *, classes: int | None = None, labels: Path | None = None) -> Dataset:
    """Reads and checks a dataset; pictures are not opened.

    `classes` is how many the network knows: a larger class in a label is an error. `labels` is the
    list of WordNet ids; without it one of LABEL_LISTS is looked for in the folder and the one above.
    Raises ConfigurationError with file and line.
    """
    if path.is_file():
        return _coco(path, classes)
    if not path.is_dir():
        raise ConfigurationError(f"{path}: there is no such dataset")
    images = path / "images"
    if (path / "labels").is_dir() and images.is_dir():
        return _yolo(path, classes)
    found = [*sorted(path.glob("*.json")), *sorted((path / "annotations").glob("*.json"))]
    if len(found) == 1:
        return _coco(found[0], classes)
    if len(found) > 1:
        raise ConfigurationError(
            f"{path}: holds {len(found)} JSON files", cure=f"name one, as in --dataset {found[0]}"
        )
    paths = _pictures_below(images if images.is_dir() else path)
    if not paths:
        raise ConfigurationError(
            f"{path}: holds no pictures",
            cure="a dataset is a folder with images/ and labels/, COCO JSON, or pictures named by WordNet id",
        )
    if all(_wordnet_id(picture) for picture in paths):
        return _imagenet(path, paths, classes, labels)
    return Dataset(path=path, kind="pictures", pictures=tuple(Picture(path=picture) for picture in paths))


def read_names(path: Path) -> list[str]:
    """A list of names, one a line, in output order; blank lines at the end are left out."""
    try:
        return path.read_text(encoding="utf-8").rstrip().splitlines()
    except OSError as error:
        raise file_error(path, error) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _pictures_below(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    for path in paths:
        if not is_utf8(str(path)):  # results and reports could not hold it
            raise ConfigurationError(f"{path}: its name is not UTF-8", cure="Rename the picture.")
    return paths


# --- YOLO labels


def _yolo(path: Path, classes: int | None) -> Dataset:
    images = path / "images"
    paths = _pictures_below(images)
    if not paths:
        raise ConfigurationError(f"{images}: holds no pictures")
    pictures = tuple(
        Picture(
            path=picture,
            truth=read_labels((path / "labels" / picture.relative_to(images)).with_suffix(".txt"), classes),
        )
        for picture in paths
    )
    return Dataset(path=path, kind="boxes", pictures=pictures)


def read_labels(path: Path, classes: int | None = None) -> Truth:
    """One picture's YOLO labels. Raises ConfigurationError with file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: the label file is missing", cure="an empty one says that the picture shows nothing"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read as text ({error})") from None
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


def _label(where: str, words: list[str], classes: int | None) -> tuple[int, list[float]]:
    if len(words) != 5:
        raise ConfigurationError(
            f"{where}: a label has 5 numbers (class, centre x, centre y, width, height), not {len(words)}"
        )
    try:
        class_id, box = int(words[0]), [float(word) for word in words[1:]]
    except ValueError:
        raise ConfigurationError(f"{where}: not a class and four numbers: {' '.join(words)[:80]}") from None
    _check_class(where, class_id, classes)
    if not all(map(math.isfinite, box)):
        raise ConfigurationError(f"{where}: a coordinate is not finite")
    centre, size = box[:2], box[2:]
    if not all(-_SLACK <= value <= 1 + _SLACK for value in centre):
        raise ConfigurationError(f"{where}: the centre {centre} lies outside the picture (0 to 1)")
    if not all(0 < value <= 1 + _SLACK for value in size):
        raise ConfigurationError(f"{where}: width and height {size} must be above 0 and at most 1")
    return class_id, box


def _check_class(where: str, class_id: int, classes: int | None) -> None:
    if class_id < 0 or (classes is not None and class_id >= classes):
        known = "" if classes is None else f"; the network knows 0 to {classes - 1}"
        raise ConfigurationError(f"{where}: there is no class {class_id}{known}")


# --- COCO JSON


def _coco(path: Path, classes: int | None) -> Dataset:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read as text ({error})") from None
    try:
        # Classes are numbered in the order of their ids, which in COCO have gaps.
        ids = sorted(int(category["id"]) for category in data["categories"])
        images = {int(image["id"]): image for image in data["images"]}
        objects: dict[int, list[dict[str, Any]]] = {image: [] for image in images}
        for number, entry in enumerate(data["annotations"]):
            if int(entry["image_id"]) not in objects or int(entry["category_id"]) not in ids:
                raise ConfigurationError(
                    f"{path}: annotation {number} names an image or category that is not there"
                )
            objects[int(entry["image_id"])].append(entry)
        if classes is not None and len(ids) > classes:
            raise ConfigurationError(f"{path}: {len(ids)} categories, the network knows {classes}")
        order = {category: index for index, category in enumerate(ids)}
        pictures = tuple(
            Picture(
                path=_find(path, str(images[image]["file_name"])),
                truth=_objects(images[image], entries, order),
            )
            for image, entries in sorted(objects.items())
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{path}: not COCO's detection format ({type(error).__name__}: {error})",
            cure="it needs images (id, file_name, width, height), annotations (image_id, category_id, bbox) "
            "and categories (id)",
        ) from None
    if not pictures:
        raise ConfigurationError(f"{path}: lists no images")
    return Dataset(path=path, kind="boxes", pictures=pictures)


def _objects(image: dict[str, Any], entries: list[dict[str, Any]], order: dict[int, int]) -> Truth:
    width, height = float(image["width"]), float(image["height"])
    if not (width > 0 and height > 0):
        raise ValueError(f"image {image['id']} has size {width} x {height}")
    corners = np.array([entry["bbox"] for entry in entries], np.float64).reshape(-1, 4)
    if not np.isfinite(corners).all():
        raise ValueError(f"image {image['id']} has a box that is not finite")
    boxes = corners.copy()
    boxes[:, :2] += boxes[:, 2:] / 2
    boxes /= [width, height, width, height]
    return Truth(
        boxes=boxes,
        classes=np.array([order[int(entry["category_id"])] for entry in entries], np.intp),
        crowd=np.array([bool(entry.get("iscrowd", 0)) for entry in entries], np.bool_),
        areas=np.array(
            [entry.get("area", box[2] * box[3]) for entry, box in zip(entries, corners, strict=True)],
            np.float64,
        ),
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
                f"{annotations}: the picture {name} cannot be read: {error.strerror}", cure=cure_of(error)
            ) from None
    raise ConfigurationError(
        f"{annotations}: the picture {name} is not beside it, nor in "
        + ", ".join(str(place) for place in places[1:])
    )


# --- ImageNet-style names


def _wordnet_id(path: Path) -> str | None:
    for name in (path.name, path.parent.name):
        if found := _WORDNET.match(name):
            return found[0]
    return None


def _imagenet(path: Path, paths: list[Path], classes: int | None, labels: Path | None) -> Dataset:
    places = [folder / name for folder in (path, path.parent) for name in LABEL_LISTS]
    chosen = labels or next((place for place in places if place.is_file()), None)
    if chosen is None:
        raise ConfigurationError(
            f"{path}: its pictures are named by WordNet id, and no list says which output is which",
            cure=f"give one with --labels, or put {LABEL_LISTS[0]} (an id a line, in output order) there",
        )
    ids = read_names(chosen)
    order = {name.split()[0]: index for index, name in enumerate(ids) if name.strip()}
    pictures = []
    for picture in paths:
        wordnet_id = str(_wordnet_id(picture))
        if wordnet_id not in order:
            raise ConfigurationError(f"{picture}: {wordnet_id} is not in {chosen}")
        _check_class(f"{chosen}:{order[wordnet_id] + 1}", order[wordnet_id], classes)
        pictures.append(Picture(path=picture, label=order[wordnet_id]))
    return Dataset(path=path, kind="classes", pictures=tuple(pictures))
