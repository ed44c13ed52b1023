"""Pictures used both for calibration and for evaluation, recognised by their content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.errors import ConfigurationError
from harness.file_digest import file_digest
from harness.json_file import read_json

_LARGEST_FILE = 64 << 20  # bytes, as in the engine
_DIGITS = 16  # of a picture's digest: enough to distinguish all pictures


def picture_digest(path: Path) -> str:
    """A picture's digest in calibration files."""
    return file_digest(path)[:_DIGITS]


def overlap(calibration: Path, pictures: Iterable[Path]) -> int | None:
    """The number of pictures used for the ranges; None if the file does not list its pictures.

    Raises ConfigurationError if the file cannot be read.
    """
    data = read_json(calibration, limit=_LARGEST_FILE, what="a calibration file")
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{calibration}: not a calibration file",
            hint="`harness calibrate` writes one.",
        )
    recorded = data.get("pictures")
    if recorded is None:
        return None
    if not isinstance(recorded, list) or not all(isinstance(digest, str) for digest in recorded):
        raise ConfigurationError(f"{calibration}: pictures: expected a list of digests")
    known = frozenset(recorded)
    return sum(picture_digest(picture) in known for picture in pictures)


def overlap_sentence(common: int, images: int) -> str:
    """The warning about pictures used for both."""
    return (
        f"{common} of the {images} evaluated pictures were also used for calibration, so int8 may be less "
        "accurate on other pictures"
    )
