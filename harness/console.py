"""What the user sees while something runs. Everything goes to stderr; stdout is kept for data."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

_quiet = False
_lock = threading.Lock()
_live: list[object] = []  # the one bar that is drawn; a second one only logs


class Progress(Protocol):
    """A bar in the making."""

    def advance(self, n: int = 1) -> None: ...
    def describe(self, text: str) -> None: ...


def set_quiet(quiet: bool) -> None:
    """Leaves out progress and log lines; warnings are still shown."""
    global _quiet  # noqa: PLW0603 - one process has one standard error
    _quiet = quiet


def stderr() -> Console:
    """Rich's console on standard error. NO_COLOR is honoured by Rich itself."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def interactive() -> bool:
    """Whether a person watches standard error."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def log(message: str) -> None:
    """One line about what is being done; left out with --quiet."""
    if not _quiet:
        _write(message)


def warn(message: str) -> None:
    """One line about something that may be wrong, also shown with --quiet."""
    _write(f"warning: {message}")


def _write(line: str) -> None:
    with _lock:
        bar = _live[-1] if _live else None
        if isinstance(bar, _Bar):
            bar.print(line)
        else:
            print(line, file=sys.stderr, flush=True)


def emit_json(data: object) -> None:
    """Data for machines, on stdout. NaN is refused: it is not JSON."""
    import json

    json.dump(data, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
    sys.stdout.flush()


class _Silent:
    def advance(self, n: int = 1) -> None:
        """Nothing is shown."""

    def describe(self, text: str) -> None:
        """Nothing is shown."""


class _Lines:
    """Where nobody watches a terminal: a line at the start and one every ten seconds."""

    interval = 10.0

    def __init__(self, description: str, total: int | None) -> None:
        self.description, self.total, self.done = description, total, 0
        self.printed = time.monotonic()
        log(f"{description} ...")

    def advance(self, n: int = 1) -> None:
        self.done += n
        self._maybe()

    def describe(self, text: str) -> None:
        self.description = text
        self._maybe()

    def _maybe(self) -> None:
        now = time.monotonic()
        if now - self.printed >= self.interval:
            self.printed = now
            of = f"/{self.total}" if self.total is not None else ""
            log(f"{self.description}: {self.done}{of}")


class _Bar:
    """Rich's bar on a terminal."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._escape = escape
        columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
        if total is not None:
            columns[2:2] = [BarColumn(bar_width=24), MofNCompleteColumn()]
        self.bar = Bar(*columns, console=stderr(), transient=True)
        self.task = self.bar.add_task(escape(description), total=total)

    def advance(self, n: int = 1) -> None:
        self.bar.advance(self.task, n)

    def describe(self, text: str) -> None:
        self.bar.update(self.task, description=self._escape(text))

    def print(self, line: str) -> None:
        self.bar.console.print(line, markup=False)


@contextlib.contextmanager
def progress(description: str, total: int | None) -> Iterator[Progress]:
    """A bar for anything over two seconds; `total` None where it is not known.

    On a terminal it is drawn and vanishes when done; elsewhere it logs a line now and then. Inside
    another bar (or another thread's) nothing more is drawn.
    """
    if _quiet:
        yield _Silent()
        return
    if not interactive():
        yield _Lines(description, total)
        return
    with _lock:
        nested = bool(_live)
        if not nested:
            bar = _Bar(description, total)
            _live.append(bar)
    if nested:
        yield _Silent()
        return
    try:
        with bar.bar:
            yield bar
    finally:
        with _lock:
            _live.remove(bar)
