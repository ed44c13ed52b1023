"""Hashes of what goes into a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from harness.file_digest import file_digest


def of_text(text: str) -> str:
    """SHA-256 of a text. Latin-1 text of a cfg gives the hash of its UTF-8 form, which is as unique."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_values(values: Mapping[str, object]) -> str:
    """SHA-256 of a mapping of JSON values, whatever the order of its keys."""
    return of_text(json.dumps(values, sort_keys=True, allow_nan=False))


def of_dataset(path: Path) -> str:
    """SHA-256 over the names and bytes of everything that belongs to a data set."""
    from harness.accuracy.dataset import LABEL_LISTS, read_pictures

    folder = path if path.is_dir() else path.parent
    files = {path} if path.is_file() else {entry for entry in path.rglob("*") if entry.is_file()}
    files.update(read_pictures(path))
    files.update(list_ for name in LABEL_LISTS if (list_ := folder.parent / name).is_file())
    total = hashlib.sha256()
    for file in sorted(files):
        name = file.relative_to(folder) if file.is_relative_to(folder) else file.name
        total.update(f"{name}\0{file_digest(file)}\n".encode())
    return total.hexdigest()
