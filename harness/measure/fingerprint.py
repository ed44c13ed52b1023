"""Hashes of the inputs of a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from harness.file_digest import file_digest


def of_text(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hex. A cfg is read as Latin-1, so its hash is not that of the file."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_values(values: Mapping[str, object]) -> str:
    """SHA-256 of a mapping of JSON values; the order of its keys does not matter."""
    return of_text(json.dumps(values, sort_keys=True, allow_nan=False))


def of_dataset(path: Path, split: str = "val") -> str:
    """SHA-256 over the names and bytes of everything that belongs to a data set; of a `data.yaml` that names
    no split, to `split`."""
    from harness.accuracy.dataset import files_of

    folder = path if path.is_dir() else path.parent
    total = hashlib.sha256()
    for file in sorted(set(files_of(path, split=split))):
        name = file.relative_to(folder) if file.is_relative_to(folder) else file.name
        total.update(f"{name}\0{file_digest(file)}\n".encode())
    return total.hexdigest()
