"""The path of a data set: a folder, COCO JSON, or one split of a `data.yaml`, as `data.yaml:train`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.config.document import Node
from harness.config.validation import Schema, Text, existing_kind

YAML_SUFFIXES = (".yaml", ".yml")
SPLITS = ("train", "val", "test")

_WITH_SPLIT = re.compile(rf"(.+\.ya?ml):({'|'.join(SPLITS)})")


def split_of(path: Path) -> tuple[Path, str]:
    """The file and the split of `data.yaml:train`; of other paths the path itself and ""."""
    found = _WITH_SPLIT.fullmatch(path.name)
    return (path.with_name(found[1]), found[2]) if found else (path, "")


def with_split(path: Path, split: str) -> Path:
    """The path of a `data.yaml` with this split; replaces a split in the path."""
    file, _ = split_of(path)
    return file.with_name(f"{file.name}:{split}")


@dataclass(frozen=True, kw_only=True)
class DataSetPath:
    """The path of a data set that exists, relative to the document's folder."""

    what: str = "data set"

    def read(self, node: Node) -> Path:
        path = Path(node.file).parent / Text(expected=f"the path of a {self.what}").read(node)
        file, _ = split_of(path)
        kind = existing_kind(node, file, self.what)
        if kind != "folder" and not (kind == "file" and file.suffix in (".json", *YAML_SUFFIXES)):
            raise node.error(
                f"expected a {self.what}, but {file} is a {kind}",
                hint="A data set is a folder, COCO JSON, or a data.yaml, also as data.yaml:train.",
            )
        return path

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}
