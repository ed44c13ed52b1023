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
    from rich.progress import Progress as Bar

_quiet = False
_lock = threading.Lock()
_bar: Bar | None = None  # what is drawn, while anything is


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


def stdout() -> Console:
    """Rich's console on standard output, for tables: wide where it is no terminal, so that nothing is cut."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


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
        if _bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            _bar.console.print(line, markup=False)


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


class _Task:
    """A line of Rich's display on a terminal; all that is under way shares one display."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich.markup import escape

        self._escape = escape
        self._bar = _shared_bar()
        self._id = self._bar.add_task(escape(description), total=total)

    def advance(self, n: int = 1) -> None:
        self._bar.advance(self._id, n)

    def describe(self, text: str) -> None:
        self._bar.update(self._id, description=self._escape(text))

    def end(self) -> None:
        global _bar  # noqa: PLW0603
        with _lock:
            self._bar.remove_task(self._id)
            if not self._bar.tasks:
                self._bar.stop()
                _bar = None


def _shared_bar() -> Bar:
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    global _bar  # noqa: PLW0603 - one process has one terminal
    with _lock:
        if _bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
            _bar = Bar(SpinnerColumn(), *columns, TimeElapsedColumn(), console=stderr(), transient=True)
            _bar.start()
        return _bar


@contextlib.contextmanager
def progress(description: str, total: int | None) -> Iterator[Progress]:
    """A bar for anything over two seconds; `total` None where it is not known.

    On a terminal it is drawn, below others that are under way, and vanishes when done; elsewhere it logs a
    line now and then.
    """
    if _quiet:
        yield _Silent()
    elif not interactive():
        yield _Lines(description, total)
    else:
        task = _Task(description, total)
        try:
            yield task
        finally:
            task.end()
