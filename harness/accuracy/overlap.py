"""Pictures that a calibration file was recorded on and accuracy is evaluated on as well: by their content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.errors import ConfigurationError
from harness.file_digest import file_digest
from harness.json_file import read_json

_LARGEST_FILE = 64 << 20  # bytes, as in the engine
_DIGITS = 16  # of a picture's digest: enough to tell any two apart


def picture_digest(path: Path) -> str:
    """What a calibration file keeps of a picture."""
    return file_digest(path)[:_DIGITS]


def overlap(calibration: Path, pictures: Iterable[Path]) -> int | None:
    """How many of the pictures the ranges were recorded on; None where the file does not say on which.

    Raises ConfigurationError where the file cannot be read.
    """
    data = read_json(calibration, limit=_LARGEST_FILE, what="a calibration file")
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{calibration}: not a calibration file: it holds no object",
            hint="harness calibrate writes one.",
        )
    recorded = data.get("pictures")
    if recorded is None:
        return None
    if not isinstance(recorded, list) or not all(isinstance(digest, str) for digest in recorded):
        raise ConfigurationError(f"{calibration}: pictures: expected a list of digests")
    known = frozenset(recorded)
    return sum(picture_digest(picture) in known for picture in pictures)


def overlap_sentence(common: int, images: int) -> str:
    """What a reader of an accuracy has to know of its calibration."""
    return (
        f"{common} of the {images} evaluated pictures are also those that int8's ranges were recorded on, so "
        "int8 may look better than on other pictures"
    )
