"""What a task is, and the interface of what runs tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

_asked_to_stop: ContextVar[Callable[[], bool] | None] = ContextVar("asked_to_stop", default=None)


class Stopped(Exception):  # noqa: N818 - not an error
    """Nobody needs the result of this task any more."""


@dataclass(frozen=True, eq=False)
class Shared(Generic[T]):
    """A value that many tasks have in common. It is sent to a machine once."""

    value: T


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A call of a function of a module. `name` is the caller's.

    Another machine may perform it. There, each Path of a file among the arguments, or within them, is that of
    a copy.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class TaskRunner(Protocol):
    """Runs tasks, several at once."""

    @property
    def at_once(self) -> int:
        """How many tasks run at once at the moment."""

    def run(self, tasks: Iterable[Task], done: Callable[[str, Any], object]) -> None:
        """Runs all tasks. Each is taken from `tasks` when there is room for it, and `done` is called with its
        name and its result when it is complete, both in the thread of the caller.

        An exception of a task, of `tasks` or of `done`, Ctrl-C and Stopped cancel the other tasks. `done` is
        still called with those that are complete.
        """

    def close(self) -> None:
        """Ends the connection to other machines, if there is one."""


def check_stopped() -> None:
    """For long tasks, and what waits for them: raises Stopped if nobody needs the result any more."""
    asked = _asked_to_stop.get()
    if asked is not None and asked():
        raise Stopped


@contextlib.contextmanager
def stoppable(asked: Callable[[], bool]) -> Iterator[None]:
    """In this context `check_stopped` raises if `asked` returns True."""
    token = _asked_to_stop.set(asked)
    try:
        yield
    finally:
        _asked_to_stop.reset(token)
