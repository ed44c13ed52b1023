"""Unpacks an archive of packages beside itself."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path


def unpack(archive: str, folder: str, temporary: str) -> None:
    """Unpacks to `folder` whole or not at all; `temporary` is a free path on the same file system."""
    try:
        with zipfile.ZipFile(archive) as file:
            file.extractall(temporary)
        try:
            Path(temporary).rename(folder)
        except OSError:
            if not Path(folder).is_dir():  # another session may have been faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
