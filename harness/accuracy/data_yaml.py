"""Ultralytics' description of a data set, `data.yaml`: the pictures of each split, and the class names.

    path: coco8            # the folder that the others are relative to: beside this file, or absolute
    train: images/train    # a folder, a text file that lists pictures, or a list of these
    val: images/val
    test:                  # optional
    names: {0: person, 1: bicycle}

The labels of `images/val/a.jpg` are in `labels/val/a.txt`. Other keys are ignored; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.accuracy.labels import label_file, labelled_dataset
from harness.accuracy.truth import Dataset
from harness.config.data_set_path import SPLITS
from harness.config.document import Node, read_document
from harness.errors import ConfigurationError
from harness.files import read_text

NAMES = ("data.yaml", "dataset.yaml", "data.yml")  # searched for in a folder

_LARGEST_LIST = 256 << 20  # bytes of a text file of pictures
_ALIASES = {"val": "validation"}  # also accepted by Ultralytics

Below = Callable[[Path], list[Path]]  # the pictures below a folder


class DataYaml:
    """One file. Raises ConfigurationError with file and line for invalid content."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._node = read_document(file)
        if self._node.kind != "mapping":
            raise self._node.error(
                f"expected the keys path, train, val and names of a data set, found {self._node.describe()}"
            )
        self._entries = {
            split: node
            for split in SPLITS
            for key in (split, _ALIASES.get(split, split))
            if (node := self._node.entries.get(key)) is not None and node.kind != "nothing"
        }

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits in the file."""
        return tuple(self._entries)

    def dataset(self, split: str, below: Below, classes: int | None) -> Dataset:
        """The pictures of a split with their boxes."""
        names = self.names()
        if classes is not None and len(names) > classes:
            raise ConfigurationError(f"{self.file}: {len(names)} classes, but the network has {classes}")
        pairs = [(picture, label_file(picture)) for picture in self.pictures(split, below)]
        found = labelled_dataset(self.file.with_name(f"{self.file.name}:{split}"), pairs, classes)
        return replace(found, names=tuple(names))

    def names(self) -> list[str]:
        """The names of the classes in order; empty if the file has none."""
        node = self._node.entries.get("names")
        names = [] if node is None or node.kind == "nothing" else _names(node)
        count = self._node.entries.get("nc")
        if count is not None and names and count.scalar != len(names):
            raise count.error(
                f"nc is {count.source}, but names has {len(names)}", hint="Correct one of them."
            )
        return names

    def pictures(self, split: str, below: Below) -> list[Path]:
        """The pictures of a split in the order of their paths, each once."""
        if split not in self._entries:
            has = f"it has {' and '.join(self.splits)}" if self.splits else "it has no splits"
            raise ConfigurationError(
                f"{self.file}: has no split {split}; {has}",
                hint=f"Choose another split, for example {self.file}:train." if self.splits else "",
            )
        node = self._entries[split]
        found: set[Path] = set()
        for item in node.items if node.kind == "list" else (node,):
            found.update(self._pictures_at(item, split, below))
        if not found:
            raise node.error(f"the split {split} has no pictures")
        return sorted(found)

    def has_pictures(self, split: str) -> bool:
        """Whether the split is in the file and its folders exist; they may be on another machine."""
        if split not in self._entries:
            return False
        node = self._entries[split]
        try:
            for item in node.items if node.kind == "list" else (node,):
                self._place(item, split)
        except ConfigurationError:
            return False
        return True

    def _pictures_at(self, node: Node, split: str, below: Below) -> list[Path]:
        place = self._place(node, split)
        if place.is_dir():
            return below(place)
        if place.suffix != ".txt":
            raise node.error(f"expected a folder or a .txt file of pictures, found {place}")
        return self._listed(place)

    def _place(self, node: Node, split: str) -> Path:
        if node.kind != "text" or "\0" in node.source:
            raise node.error(f"expected a folder or a .txt file of pictures, found {node.describe()}")
        root = self._root()
        places = [root / node.source]
        if node.source.startswith("../"):  # Roboflow writes this for folders beside the file
            places.append(root / node.source.removeprefix("../"))
        for place in places:
            if place.exists():
                return place
        raise node.error(
            f"{places[0]}: the pictures of the split {split} are missing",
            hint="Correct path or the split. harness does not download data sets.",
        )

    def _root(self) -> Path:
        node = self._node.entries.get("path")
        beside = self.file.parent
        if node is None or node.kind == "nothing":
            return beside
        if node.kind != "text" or "\0" in node.source:
            raise node.error(f"expected a folder, found {node.describe()}")
        # Ultralytics resolves the path in the working directory.
        places = [beside / node.source, Path(node.source)]
        return next((place for place in places if place.is_dir()), beside)

    def _listed(self, file: Path) -> list[Path]:
        """The pictures listed in a text file, relative to the file or to the data set's folder."""
        found = []
        text = read_text(file, limit=_LARGEST_LIST, what="a list of pictures")
        for number, line in enumerate(text.split("\n"), start=1):
            name = line.strip()
            if not name:
                continue
            places = dict.fromkeys((file.parent / name, self._root() / name))
            picture = next((place for place in places if "\0" not in name and place.is_file()), None)
            if picture is None:
                raise ConfigurationError(f"{file}:{number}: the picture {name[:200]} does not exist")
            found.append(picture)
        return found


def _names(node: Node) -> list[str]:
    items = node.items
    if node.kind == "mapping":
        expected = [str(number) for number in range(len(node.entries))]
        if sorted(node.entries) != sorted(expected):
            wrong = next((key for key in node.entries if key not in expected), "")
            raise node.error(
                f"expected the classes 0 to {len(expected) - 1}, found {wrong[:40]}",
                hint="Number the classes from 0 without gaps.",
                key=wrong,
            )
        items = tuple(node.entries[key] for key in expected)
    elif node.kind != "list":
        raise node.error(f"expected a list of names, or numbers with names, found {node.describe()}")
    for item in items:
        if item.kind in ("list", "mapping"):
            raise item.error(f"expected the name of a class, found {item.describe()}")
    return [item.source for item in items]
