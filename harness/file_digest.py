"""The hashes of local files, each read once as long as it does not change."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from harness.errors import file_error
from harness.files import open_regular

_RECENT_NS = 2_000_000_000
_digests: dict[tuple[str, int, int, int], str] = {}


def file_digest(path: Path) -> str:
    """The SHA-256 of a local file, cached as long as its size, inode and time of change are the same.

    Raises ConfigurationError if it cannot be read or is not a regular file.
    """
    try:
        with open_regular(path) as stream:
            status = os.fstat(stream.fileno())
            key = (str(path), status.st_size, status.st_ctime_ns, status.st_ino)
            if key in _digests:
                return _digests[key]
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise file_error(path, error) from None
    # A file may change twice within one tick of its clock, and while it is read.
    if time.time_ns() - status.st_ctime_ns > _RECENT_NS:
        _digests[key] = digest
    return digest
