"""Pictures with their truth: boxes for detectors, classes for classifiers.

Five forms are recognised:

- a folder with `images/` and YOLO `labels/`: a text file per picture with the same stem and a line per box,
  `class centre_x centre_y width height` in fractions of the picture; a picture with an empty file, or without
  one, is background;
- Ultralytics' `data.yaml`, or a folder with one, and one of its splits (`data.yaml:train`);
- COCO JSON: the file itself, or a folder that holds one (in itself or in `annotations/`); pictures are
  searched beside it, in `images/`, and in the sibling folder with the name of the split;
- ImageNet-style file names: the names of pictures, or of their folders, start with a WordNet id
  (`n01440764_tench.JPEG`); a list of the ids in output order gives the class;
- a folder with a sub-folder of pictures per class: a list of the sub-folders' names in output order gives the
  class, or else their alphabetical order if there are as many as classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.accuracy.coco import likely_annotations, read_coco
from harness.accuracy.data_yaml import NAMES, DataYaml
from harness.accuracy.labels import check_class, label_file, labelled_dataset
from harness.accuracy.names import read_names
from harness.accuracy.pictures import SUFFIXES
from harness.accuracy.truth import Dataset, Picture
from harness.config.data_set_path import SPLITS, YAML_SUFFIXES, split_of, with_split
from harness.config.document import nearest_file
from harness.errors import ConfigurationError, file_error
from harness.files import kind_of
from harness.text import is_utf8

LABEL_LISTS = ("imagenet.labels.list", "labels.list")

_WORDNET = re.compile(r"n\d{8}(?!\d)")
_DEFAULT_SPLIT = "val"


def read_pictures(path: Path, *, split: str = _DEFAULT_SPLIT) -> list[Path]:
    """A data set's pictures without labels, which may be missing.

    A `data.yaml` without a split means `split`, or `val` if those pictures are missing. Raises
    ConfigurationError.
    """
    file, chosen = _found(with_split_in_use(path, split))
    if chosen:
        return DataYaml(file).pictures(chosen, _pictures_below)
    images = file / "images"
    if file.is_dir() and (paths := _pictures_below(images if images.is_dir() else file)):
        return paths
    return [picture.path for picture in read_dataset(path).pictures]


def with_split_in_use(path: Path, split: str = _DEFAULT_SPLIT) -> Path:
    """A dataset's path with the split that `read_pictures` reads; as it is where there are no splits."""
    file, named = _found(path)
    if file.suffix not in YAML_SUFFIXES or file.is_dir():
        return path
    return with_split(file, named or (split if DataYaml(file).has_pictures(split) else _DEFAULT_SPLIT))


def with_chosen_split(path: Path, split: str) -> Path:
    """A data set's path with the split of --split.

    Raises ConfigurationError if it is not a `data.yaml`, or has a split already.
    """
    file, named = _found(path)
    if file.suffix not in YAML_SUFFIXES or file.is_dir():
        raise ConfigurationError(f"{path}: only a data.yaml has splits", hint="Omit --split.")
    if named and named != split:
        raise ConfigurationError(f"{path}: conflicts with --split {split}", hint="Keep one of them.")
    return with_split(file, split)


def read_dataset(
    path: Path, *, classes: int | None = None, labels: Path | None = None, sort_ids: bool = False
) -> Dataset:
    """Reads and checks a dataset; pictures are not opened.

    `classes` is the network's number of classes: a larger class in a label is an error. `labels` is the
    list of WordNet ids; by default one of LABEL_LISTS in the folder or its parent, of which `sort_ids` takes
    the network's classes in sorted order, as all frameworks but Darknet number them.
    Raises ConfigurationError with file and line.
    """
    file, split = _found(path)
    if not file.is_dir():
        if file.suffix in YAML_SUFFIXES:
            return DataYaml(file).dataset(split or _DEFAULT_SPLIT, _pictures_below, classes)
        return read_coco(file, classes)
    images = file / "images"
    if (file / "labels").is_dir() and images.is_dir():
        return _yolo(file, classes)
    found = [*sorted(file.glob("*.json")), *sorted((file / "annotations").glob("*.json"))]
    if len(found) == 1:
        return read_coco(found[0], classes)
    if len(found) > 1:
        raise ConfigurationError(
            f"{file}: holds {len(found)} JSON files",
            hint=f"Name one, as in --dataset {likely_annotations(found)}",
        )
    paths = _pictures_below(images if images.is_dir() else file)
    if not paths:
        raise ConfigurationError(
            f"{file}: has no pictures",
            hint="A dataset is a folder with images/ and labels/, a data.yaml, COCO JSON, or pictures named "
            "by WordNet id.",
        )
    chosen = labels or _list_beside(file)
    folders = _class_folders(file, paths)
    are_classes = folders and classes in (None, len(folders))
    if all(_wordnet_id(picture) for picture in paths) and (chosen or not are_classes):
        return _imagenet(file, paths, classes, chosen, sort_ids=sort_ids and labels is None)
    if folders and (order := _order_of(folders, chosen, classes)):
        return _sorted_into_folders(file, paths, classes, order)
    return Dataset(path=file, kind="pictures", pictures=tuple(Picture(path=picture) for picture in paths))


def names_around(pictures: Sequence[Path]) -> list[str]:
    """The names of the classes in the `data.yaml` of the data set that all the pictures are in; none if there
    is no such file, or if it cannot be read."""
    files = {_yaml_around(folder) for folder in {picture.absolute().parent for picture in pictures}}
    file = files.pop() if len(files) == 1 else None
    try:
        return DataYaml(file).names() if file else []
    except ConfigurationError:  # the user did not choose this file
        return []


def _yaml_around(folder: Path) -> Path | None:
    """The `data.yaml` beside the last folder `images` of a path or, as Roboflow puts it, of its split."""
    images = next((part for part in (folder, *folder.parents) if part.name == "images"), None)
    if images is None:
        return None
    root = images.parent
    places = (root, root.parent) if root.name in (*SPLITS, "valid") else (root,)
    return next((file for place in places for name in NAMES if (file := place / name).is_file()), None)


def files_of(path: Path, *, split: str = _DEFAULT_SPLIT) -> Iterator[Path]:
    """Every file that a dataset's pictures and labels come from. Raises ConfigurationError."""
    pictures = read_pictures(path, split=split)
    yield from pictures
    file, _ = _found(path)
    if file.is_dir():
        yield from (entry for entry in file.rglob("*") if entry.is_file())
    else:
        yield file
        if file.suffix in YAML_SUFFIXES:
            yield from (label for label in map(label_file, pictures) if label.is_file())
    folder = file if file.is_dir() else file.parent
    yield from (names for name in LABEL_LISTS if (names := folder.parent / name).is_file())


def _found(path: Path) -> tuple[Path, str]:
    """The folder or file of a dataset, and the split that its path names, or ""."""
    file, split = split_of(path)
    try:
        kind = kind_of(file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        near = nearest_file(file)
        raise ConfigurationError(
            f"{file}: the data set does not exist", hint=f"Did you mean {near}?" if near else ""
        ) from None
    except OSError as error:
        raise file_error(file, error) from None
    if kind not in ("folder", "file"):
        raise ConfigurationError(f"{file}: is a {kind}, not a data set")
    if kind == "folder" and not (file / "labels").is_dir():
        described = next((file / name for name in NAMES if (file / name).is_file()), None)
        return described or file, split if described else ""
    return file, split if kind == "file" else ""


def _pictures_below(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    pictures = []
    for path in paths:
        if path.is_dir():
            continue
        if not is_utf8(str(path)):  # the store and reports are UTF-8
            raise ConfigurationError(f"{path}: the name is not UTF-8", hint="Rename the picture.")
        try:
            kind = kind_of(path.stat().st_mode)
        except OSError as error:
            raise file_error(path, error) from None
        if kind != "file":
            raise ConfigurationError(f"{path}: is a {kind}, not a picture", hint="Remove it.")
        pictures.append(path)
    return pictures


def _yolo(path: Path, classes: int | None) -> Dataset:
    images = path / "images"
    paths = _pictures_below(images)
    if not paths:
        raise ConfigurationError(f"{images}: has no pictures")
    pairs = [
        (picture, (path / "labels" / picture.relative_to(images)).with_suffix(".txt")) for picture in paths
    ]
    return replace(labelled_dataset(path, pairs, classes), names=tuple(names_around(paths)))


# --- ImageNet-style names


def _wordnet_id(path: Path) -> str | None:
    for name in (path.name, path.parent.name):
        if found := _WORDNET.match(name):
            return found[0]
    return None


def _list_beside(path: Path) -> Path | None:
    """The list of classes in a data set's folder or beside it."""
    places = [folder / name for folder in (path, path.parent) for name in LABEL_LISTS]
    return next((place for place in places if place.is_file()), None)


def _imagenet(
    path: Path, paths: list[Path], classes: int | None, chosen: Path | None, *, sort_ids: bool
) -> Dataset:
    if chosen is None:
        raise ConfigurationError(
            f"{path}: pictures are named by WordNet id, but the order of the outputs is unknown",
            hint=f"Name a list of ids in output order with --labels, or put it there as {LABEL_LISTS[0]}.",
        )
    ids = read_names(chosen)
    if sort_ids:
        ids = sorted(name for name in ids[:classes] if name.strip())
    order = {name.split()[0]: index for index, name in enumerate(ids) if name.strip()}
    pictures = []
    for picture in paths:
        wordnet_id = str(_wordnet_id(picture))
        if wordnet_id not in order:
            raise ConfigurationError(f"{picture}: {wordnet_id} is not in {chosen}")
        check_class(f"{chosen}:{order[wordnet_id] + 1}", order[wordnet_id], classes)
        pictures.append(Picture(path=picture, label=order[wordnet_id]))
    return Dataset(path=path, kind="classes", pictures=tuple(pictures))


# --- a folder per class


def _class_folders(path: Path, paths: list[Path]) -> list[str]:
    """The sub-folders in order, if they hold all pictures and are several; else none."""
    inside = [picture.relative_to(path).parts for picture in paths]
    folders = sorted({parts[0] for parts in inside})
    return folders if len(folders) > 1 and all(len(parts) > 1 for parts in inside) else []


def _order_of(folders: list[str], chosen: Path | None, classes: int | None) -> dict[str, int]:
    """The class of each sub-folder; empty if the folders are no classes of the network."""
    if chosen is not None:
        names = read_names(chosen)
        order = {name.strip(): index for index, name in enumerate(names)}
        order |= {name.split()[0]: index for index, name in enumerate(names) if name.strip()}
        if all(folder in order for folder in folders):
            return {folder: order[folder] for folder in folders}
    if classes is not None and classes != len(folders):
        return {}
    return {folder: index for index, folder in enumerate(folders)}


def _sorted_into_folders(
    path: Path, paths: list[Path], classes: int | None, order: dict[str, int]
) -> Dataset:
    pictures = []
    for picture in paths:
        folder = picture.relative_to(path).parts[0]
        check_class(f"{path / folder}", order[folder], classes)
        pictures.append(Picture(path=picture, label=order[folder]))
    names = tuple(sorted(order, key=lambda folder: order[folder]))
    return Dataset(path=path, kind="classes", pictures=tuple(pictures), names=names)
