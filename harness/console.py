"""Progress, log lines and warnings on stderr; stdout is for data."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from harness.text import printable_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as Bar
    from rich.text import Text

_NEWS_SECONDS = 1.0  # between two checks of a view that is shown as lines

_quiet = False
_emitted = False  # whether the command has printed JSON
_lock = threading.Lock()
_bar: Bar | None = None  # the display, if one is drawn
_views: list[View] = []  # drawn above the bars
_tell: ContextVar[Callable[[str], object] | None] = ContextVar("tell", default=None)
_subject: ContextVar[str] = ContextVar("subject", default="")


class Progress(Protocol):
    """A progress bar."""

    def advance(self, n: int = 1) -> None: ...
    def describe(self, text: str) -> None: ...


class View(Protocol):
    """A display that changes, such as a table."""

    def drawn(self, height: int) -> RenderableType:
        """Its current state, in `height` lines if possible."""

    def news(self) -> Iterable[str]:
        """A line for each change since the last call."""


def set_quiet(quiet: bool) -> None:
    """Hides progress and log lines; warnings are still shown."""
    global _quiet  # noqa: PLW0603 - one process has one standard error
    _quiet = quiet


def stderr() -> Console:
    """Rich's console on standard error. NO_COLOR is honoured by Rich itself."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def stdout() -> Console:
    """Rich's console on stdout, for tables; 200 columns without a terminal, so that nothing is cut."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def text(shown: str) -> Text:
    """Text for a table without Rich's markup."""
    from rich.text import Text

    return Text(printable_lines(shown))


def interactive() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def log(message: str) -> None:
    """Prints a line about the current work; hidden with --quiet."""
    if not _quiet:
        _write(_about(message))


@contextlib.contextmanager
def speaking_of(subject: str) -> Iterator[None]:
    """Prefixes log lines and bars in this context with a name, such as that of a cell."""
    token = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(token)


def _about(message: str) -> str:
    subject = _subject.get()
    return message if subject in message else f"{subject}: {message}"


def warn(message: str) -> None:
    """Prints a warning, also with --quiet."""
    _write(f"warning: {_about(message)}")


def _write(text: str) -> None:
    text = printable_lines(text)
    with _lock:
        if _bar is None:
            print(text, file=sys.stderr, flush=True)
        else:
            _bar.console.print(text, markup=False, emoji=False)


def emit_json(data: object) -> None:
    """Prints a JSON document on stdout, completely or not at all. Raises ValueError for NaN."""
    import json

    global _emitted  # noqa: PLW0603 - one process has one standard output
    readable = (sys.stdout.encoding or "").lower().startswith("utf")
    document = json.dumps(data, indent=2, ensure_ascii=not readable, allow_nan=False)
    _emitted = True
    sys.stdout.write(f"{document}\n")
    sys.stdout.flush()


def begin_output() -> None:
    """Resets `has_output` at the start of a command."""
    global _emitted  # noqa: PLW0603
    _emitted = False


def has_output() -> bool:
    """Whether the command has printed its JSON document."""
    return _emitted


class _Silent:
    def advance(self, n: int = 1) -> None:
        """Nothing is shown."""

    def describe(self, text: str) -> None:
        """Nothing is shown."""


class _Lines:
    """Progress without a terminal: a line at the start, then lines at growing intervals."""

    interval, longest = 10.0, 60.0  # seconds

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
            self.interval = min(1.5 * self.interval, self.longest)
            log(_counted(self.description, self.done, self.total))


def _counted(description: str, done: int, total: int | None) -> str:
    if total is None:
        return f"{description}: {done}" if done else description
    return f"{description}: {done}/{total}"


class _Told:
    """Progress of a thread that has a line in a view: shown there instead of as a bar."""

    def __init__(self, tell: Callable[[str], object], description: str, total: int | None) -> None:
        self._tell, self._description, self._total, self._done = tell, description, total, 0
        self._say()

    def advance(self, n: int = 1) -> None:
        self._done += n
        self._say()

    def describe(self, text: str) -> None:
        self._description = text
        self._say()

    def end(self) -> None:
        self._tell("")

    def _say(self) -> None:
        self._tell(_counted(self._description, self._done, self._total))


class _Task:
    """A bar in Rich's display on a terminal; all bars share one display."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich.markup import escape

        self._escape = escape
        with _lock:
            self._bar = _display()
            self._id = self._bar.add_task(escape(description), total=total)

    def advance(self, n: int = 1) -> None:
        self._bar.advance(self._id, n)

    def describe(self, text: str) -> None:
        self._bar.update(self._id, description=self._escape(text))

    def end(self) -> None:
        with _lock:
            self._bar.remove_task(self._id)
            _end_display()


def _display() -> Bar:
    """The display, started if necessary. Callers hold the lock."""
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    terminal = stderr()

    class Display(Bar):
        def get_renderables(self) -> Iterable[RenderableType]:
            # One line stays free for the cursor or a new bar.
            room = terminal.size.height - len(self.tasks) - 1
            for view in tuple(_views):
                yield view.drawn(room)
            yield self.make_tasks_table(self.tasks)

    global _bar  # noqa: PLW0603 - one process has one terminal
    if _bar is None:
        # A long description must not hide the other columns; a narrow terminal has no bar.
        drawn = [BarColumn(bar_width=24)] if terminal.width >= 100 else []
        room = terminal.width - (52 if drawn else 26)
        text = Column(no_wrap=True, overflow="ellipsis", max_width=max(room, 12))
        columns = (TextColumn("{task.description}", table_column=text), *drawn)
        _bar = Display(
            *(SpinnerColumn(), *columns, MofNCompleteColumn(), TimeElapsedColumn()),
            console=terminal,
            transient=True,
            refresh_per_second=4,  # rarely: a measurement may run on this machine
        )
        _bar.start()
    return _bar


def _end_display() -> None:
    """Ends the display if it is empty. Callers hold the lock."""
    global _bar  # noqa: PLW0603
    if _bar is not None and not _bar.tasks and not _views:
        _bar.stop()
        _bar = None


@contextlib.contextmanager
def progress(description: str, total: int | None) -> Iterator[Progress]:
    """A progress bar, for work that takes over two seconds; `total` is None if unknown.

    On a terminal the bar appears below the others and disappears at the end; elsewhere it logs lines at
    intervals.
    """
    if _quiet:
        yield _Silent()
    elif not interactive():
        yield _Lines(description, total)
    else:
        tell = _tell.get() if _views else None
        task = _Task(_about(description), total) if tell is None else _Told(tell, description, total)
        try:
            yield task
        finally:
            task.end()


@contextlib.contextmanager
def live(view: View) -> Iterator[None]:
    """Shows a view: on a terminal above the bars until the end; elsewhere its changes are logged at intervals
    and at the end."""
    if _quiet:
        yield
    elif interactive():
        with _lock:
            _views.append(view)
            _display()
        try:
            yield
        finally:
            with _lock:
                _views.remove(view)
                _end_display()
    else:
        ended = threading.Event()
        thread = threading.Thread(target=_log_news, args=(view, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _log_news(view: View, ended: threading.Event) -> None:
    over = False
    while not over:
        over = ended.wait(_NEWS_SECONDS)
        for line in view.news():
            log(line)


@contextlib.contextmanager
def telling(tell: Callable[[str], object]) -> Iterator[None]:
    """While a view is drawn, passes this thread's progress to `tell` instead of drawing a bar."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)
