"""What an image build prints: shown as it comes, and kept in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from harness import console
from harness.errors import BuildError

_WIDTH = 160  # characters of a line that are shown


class BuildLog:
    """A log that is open."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self.name = stream, name

    def line(self, text: str) -> None:
        """Keeps a line, and shows it."""
        self.keep(text)
        if text.strip():
            console.log(f"  {text.rstrip()[:_WIDTH]}")

    def keep(self, text: str) -> None:
        """Keeps a line without showing it."""
        self._stream.write(text.rstrip() + "\n")
        self._stream.flush()


@contextlib.contextmanager
def build_log(path: Path) -> Iterator[BuildLog]:
    """Begins a log anew. A file that cannot be written meanwhile, as on a full disk, is a BuildError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as stream:
            yield BuildLog(stream, str(path))
    except OSError as error:
        raise BuildError(
            f"{error.filename or path.parent}: {error.strerror or error}",
            cure="Images are made below the cache folder and need 1 GB there; HARNESS_CACHE names another.",
        ) from error
