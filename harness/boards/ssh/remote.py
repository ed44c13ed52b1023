"""The interface of a connected board for lock, deployment and cache eviction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from harness.boards.base import Completed
from harness.boards.ssh.files import RemoteFiles
from harness.boards.ssh.session import Session


class Remote(Protocol):
    """A board with a session on it."""

    name: str

    @property
    def session(self) -> Session:
        """The session on the board. Raises BoardUnreachableError without a connection."""

    @property
    def cache_limit_bytes(self) -> int:
        """How many bytes of deployed files may stay on the board."""

    def run(self, argv: Sequence[str], *, timeout: float) -> Completed:
        """Runs a program to its end, at most `timeout` seconds."""

    def files(self) -> RemoteFiles:
        """The board's files; to be used within `reachable`."""

    def reachable(self, doing: str) -> AbstractContextManager[None]:
        """Turns the errors of a lost connection into BoardUnreachableError."""

    def refused(self, error: OSError) -> bool:
        """Whether the board itself answered that the operation failed."""

    def lose(self) -> None:
        """Closes the connection; the board then ends the session."""
