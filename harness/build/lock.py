"""A lock for one process at a time. The system releases it when its holder ends, however that happens."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from harness import console
from harness.errors import BuildError, hint_of


@contextlib.contextmanager
def exclusive(path: Path, waiting_for: str) -> Iterator[None]:
    """Holds the lock file `path`, created with its folder if needed. Logs `waiting_for` if it waits."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a")
    except OSError as error:
        raise BuildError(
            f"{path}: cannot be written: {error.strerror}",
            hint=f"{hint_of(error)} Or set HARNESS_CACHE to another folder.".strip(),
        ) from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.log(f"waiting for {waiting_for}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
