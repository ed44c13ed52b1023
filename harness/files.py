"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from harness.errors import file_error


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, under a temporary name beside `path`; it gets its own when all is written.

    Raises ConfigurationError where the folder is missing or cannot be written.
    """
    temporary = None
    try:
        # The temporary name does not hold the file's own, which may be as long as a name can be.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".harness-", delete=False) as file:
            temporary = Path(file.name)
            yield file
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # a temporary file starts out private
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise file_error(path, error, doing="cannot be written") from None
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """The same for data that is there already."""
    with written_whole(path) as file:
        file.write(data)
