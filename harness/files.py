"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness.errors import ConfigurationError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes under a temporary name beside the file, then renames.

    Raises ConfigurationError where the folder is missing or cannot be written.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # a temporary file starts out private
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
