"""The output of build tools: written to a file, and shown as one changing line.

Compilers and package managers print hundreds of lines that matter only when a step fails. Then the last of
them are shown, with the path of the whole log.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from harness import console
from harness.errors import BuildError, HarnessError

_KEPT = 400  # lines in which the first failure is searched
_TAIL, _WIDTH = 20, 160  # lines that a failure shows, and characters of each
_MARK = "  | "
# How CMake, Ninja, apt-get and Bazel begin the line that reports a failure.
_FAILED = re.compile(r"FAILED:|CMake Error|E: |ERROR: ")


class BuildLog:
    """An open log of a titled piece of work."""

    def __init__(self, stream: TextIO, name: str, title: str) -> None:
        self._stream, self.name, self.title = stream, name, title
        self.begun = False  # whether anything was written
        self._last: deque[str] = deque(maxlen=_KEPT)
        self._at = title
        self._progress: console.Progress | None = None

    def line(self, text: str) -> None:
        """Writes a line, and shows it until the next one."""
        self.keep(text)
        if text.strip():
            self._last.append(text.rstrip()[:_WIDTH])
            if self._progress is not None:
                self._progress.describe(f"{self._at}: {text.strip()[:_WIDTH]}")

    def keep(self, text: str) -> None:
        """Writes a line without showing it."""
        self.begun = True
        self._stream.write(text.rstrip() + "\n")
        self._stream.flush()

    def at(self, what: str) -> None:
        """Names the part of the work that the next lines belong to."""
        self._at = f"{self.title}: {what}"
        if self._progress is not None:
            self._progress.describe(self._at)

    @contextlib.contextmanager
    def counting(self, what: str, total: int) -> Iterator[console.Progress]:
        """A part of the work that counts its steps instead of showing its lines."""
        before, self._progress = self._progress, None
        try:
            with console.progress(f"{self.title}: {what}", total) as progress:
                yield progress
        finally:
            self._progress = before

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Shows the title, and each line while it is the last."""
        with console.progress(self.title, None) as self._progress:
            try:
                yield
            finally:
                self._progress = None

    def tail(self) -> str:
        """The last lines, or those from the first recognised failure on."""
        lines = list(self._last)
        first = next((number for number, line in enumerate(lines) if _FAILED.match(line)), None)
        chosen = lines[-_TAIL:] if first is None else lines[first : first + _TAIL]
        return "\n".join(f"{_MARK}{line}" for line in chosen)


@contextlib.contextmanager
def build_log(path: Path, title: str, *, append: bool = False, room: str = "") -> Iterator[BuildLog]:
    """Opens the log of some work, emptied first unless `append`. Logs the duration at the end.

    Adds the last lines and the log's path to a HarnessError. With `room`, a hint on disk space, a file that
    cannot be written raises BuildError.
    """
    started = time.monotonic()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if append else "w", encoding="utf-8") as stream:
            log = BuildLog(stream, str(path), title)
            with _quoted(log), log.shown():
                yield log
    except OSError as error:
        if not room:
            raise
        raise BuildError(f"{error.filename or path.parent}: {error.strerror or error}", hint=room) from error
    console.log(f"✓ {title} ({time.monotonic() - started:.0f} s)")


@contextlib.contextmanager
def _quoted(log: BuildLog) -> Iterator[None]:
    """Adds the end of the log to an error."""
    try:
        yield
    except HarnessError as error:
        tail = log.tail()
        if tail and tail.removeprefix(_MARK) not in error.message:  # as a single line often is
            error.message = f"{error.message.rstrip(':.')}:\n{tail}"
        if log.begun and log.name not in error.hint:
            error.hint = f"{error.hint} The whole log is in {log.name}.".strip()
        raise
