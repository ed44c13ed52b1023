"""Tasks as bytes for another machine. Files travel by the SHA-256 of their content, apart from the bytes.

The receiver keeps files under their hash in a folder. It unpacks bytes when it has all files that they need,
and else says which are missing.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from harness.errors import HarnessError
from harness.file_digest import file_digest
from harness.files import write_atomically
from harness.tasks.base import Shared

_SHARED_AT_ONCE = 2  # values in memory: a search has one set of pictures, its verification another


class MissingFilesError(Exception):
    """Files that are necessary to unpack something, by their hashes."""

    def __init__(self, digests: Iterable[str]) -> None:
        self.digests = tuple(sorted(digests))
        super().__init__(f"{len(self.digests)} files are missing")


class Sender:
    """Packs tasks. `files` has what they need, by hash. Not for several threads at once."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for shared values."""
        self.files: dict[str, Path] = {}
        self._folder = folder
        self._shared: WeakKeyDictionary[Shared[Any], str] = WeakKeyDictionary()

    def packed(self, value: object) -> bytes:
        buffer = io.BytesIO()
        _Packer(buffer, self).dump(value)
        return buffer.getvalue()

    def file(self, path: Path) -> str:
        digest = file_digest(path)
        self.files[digest] = path
        return digest

    def shared(self, shared: Shared[Any]) -> str:
        if shared not in self._shared:
            path = self._folder / f"shared-{len(self.files)}"
            path.write_bytes(self.packed(shared.value))
            self._shared[shared] = self.file(path)
        return self._shared[shared]


class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, sender: Sender) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._sender = sender

    def persistent_id(self, value: object) -> tuple[str, str, bool] | None:
        if isinstance(value, Path) and value.is_file():
            return "file", self._sender.file(value), os.access(value, os.X_OK)
        if isinstance(value, Shared):
            return "shared", self._sender.shared(value), False
        return None


class Receiver:
    """Unpacks tasks, with the files of a folder that several receivers may use. For any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = threading.Lock()
        self._shared: dict[str, Shared[Any]] = {}

    def unpacked(self, data: bytes) -> Any:
        """Raises MissingFilesError if files are missing."""
        missing: set[str] = set()
        value = _Unpacker(io.BytesIO(data), self, missing).load()
        if missing:
            raise MissingFilesError(missing)
        return value

    def missing(self, digests: Iterable[str]) -> list[str]:
        """The files that are not there, or damaged."""
        return [digest for digest in digests if not self._has(digest)]

    def keep(self, digest: str, data: bytes) -> None:
        """Keeps a file, completely or not at all. Raises HarnessError if it has another hash."""
        if hashlib.sha256(data).hexdigest() != digest:
            raise HarnessError(f"a file of {len(data)} bytes was changed on its way")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self.folder / digest, data)

    def path(self, digest: str, *, executable: bool) -> Path | None:
        """The path of a file; None if it is missing."""
        path = self.folder / digest
        if not self._has(digest):
            return None
        if executable and not os.access(path, os.X_OK):
            path.chmod(0o700)
        return path

    def shared(self, digest: str) -> Shared[Any] | None:
        """A shared value; None if its file is missing. Raises MissingFilesError if others are."""
        with self._guard:
            if digest not in self._shared:
                path = self.path(digest, executable=False)
                if path is None:
                    return None
                value = Shared(self.unpacked(path.read_bytes()))
                while len(self._shared) >= _SHARED_AT_ONCE:
                    del self._shared[next(iter(self._shared))]
                self._shared[digest] = value
            return self._shared[digest]

    def _has(self, digest: str) -> bool:
        path = self.folder / digest
        return path.is_file() and file_digest(path) == digest


class _Unpacker(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, receiver: Receiver, missing: set[str]) -> None:
        super().__init__(buffer)
        self._receiver, self._missing = receiver, missing

    def persistent_load(self, reference: tuple[str, str, bool]) -> Any:
        kind, digest, executable = reference
        found: Path | Shared[Any] | None
        try:
            if kind == "shared":
                found = self._receiver.shared(digest)
            else:
                found = self._receiver.path(digest, executable=executable)
        except MissingFilesError as missing:
            self._missing.update(missing.digests)
            return None
        if found is None:
            self._missing.add(digest)
        return found
