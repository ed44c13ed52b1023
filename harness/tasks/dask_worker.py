"""What a Dask worker does for harness: keeps files, and performs tasks."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import harness
from harness.errors import HarnessError, TargetMismatchError, explained
from harness.resources import cache_directory
from harness.tasks.base import Stopped, stoppable
from harness.tasks.travel import MissingFilesError, Receiver

_ended: set[str] = set()  # runs whose results nobody needs any more


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a task: files are missing, or it has failed, or `result`."""

    worker: str  # its address
    host: str
    missing: tuple[str, ...] = ()  # hashes
    error: HarnessError | None = None
    result: Any = None


@cache
def versions() -> str:
    """The versions that results depend on, beside files."""
    import numpy as np

    sources = hashlib.sha256()
    folder = Path(harness.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if name.parts[0] != "_resources":
            sources.update(f"{name}\0".encode() + path.read_bytes())
    return f"harness {harness.__version__} (sources {sources.hexdigest()[:12]}) with numpy {np.__version__}"


def perform(data: bytes, run: str, expected: str) -> Answer:
    """Performs a packed task of a run. `expected` are the versions of the sender."""
    from distributed import get_worker

    worker, host = get_worker().address, socket.gethostname()
    try:
        if versions() != expected:
            raise TargetMismatchError(
                f"has {versions()}, but the command runs with {expected}",
                hint="Install the same versions on all machines.",
            )
        function, arguments = _receiver().unpacked(data)
        with stoppable(lambda: run in _ended):
            return Answer(worker=worker, host=host, result=function(*arguments))
    except MissingFilesError as error:
        return Answer(worker=worker, host=host, missing=error.digests)
    except Stopped:
        return Answer(worker=worker, host=host)
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        return Answer(worker=worker, host=host, error=known)


def missing_files(digests: Sequence[str]) -> list[str]:
    """Those that this worker does not have."""
    return _receiver().missing(digests)


def keep_file(digest: str, data: bytes) -> None:
    """Keeps a file in the cache folder of this machine."""
    _receiver().keep(digest, data)


def end_run(run: str) -> None:
    """Lets the tasks of a run end soon."""
    _ended.add(run)


@cache
def _receiver() -> Receiver:
    return Receiver(cache_directory() / "received")
