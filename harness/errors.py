"""Errors for users; each class has its exit status."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HINTS = {
    errno.ENOENT: "Check the name and the folder.",
    errno.ENAMETOOLONG: "Choose a shorter name: a name has at most 255 bytes, a path 4095.",
    errno.ELOOP: "A symbolic link in the path points to itself: correct it, or use another path.",
    errno.ENOTDIR: "A part of the path before a slash is a file, not a folder.",
    errno.EISDIR: "The path is a folder; give a file.",
    errno.EACCES: "Check its permissions, and those of its parent folders (`namei -l`).",
    errno.EPERM: "Check its permissions, and those of its parent folders (`namei -l`).",
    errno.EROFS: "The file system is read-only: use another folder.",
    errno.ENOSPC: "Free disk space (`df`), or use another folder.",
    errno.EDQUOT: "Free disk space (`quota`), or use another folder.",
}


# The start of messages about a line of a file, a layer of a network, or a file.
_PLACE = re.compile(r"(?:(?!: )[^\n])+?:[0-9]+(?=: )|layer [0-9]+\b|[^\s:]*[/.][^\s:]*(?=: )")


class HarnessError(Exception):
    """`message`: what failed and where; `hint`: what to do.

    `where`: only the place, for programs: FILE:LINE, a file, a board or a layer; "" if unknown.
    """

    exit_status = 1

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        place = _PLACE.match(message)
        self.where = where or (place[0] if place else "")

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigurationError(HarnessError):
    """Usage, configuration or input data is wrong."""

    exit_status = 2


class BuildError(HarnessError):
    """A compiler, an image build or a download failed."""

    exit_status = 3


class TargetMismatchError(HarnessError):
    """The binary does not fit the target: glibc version or instruction set."""

    exit_status = 4


class BoardUnreachableError(HarnessError):
    """A board is unreachable, or stopped answering."""

    exit_status = 5


class BoardFaultError(BoardUnreachableError):
    """A board answers but fails, for example because its disk is full; another board may work."""


class BoardRefusedError(BoardUnreachableError):
    """Authentication or the check of the host key failed: a retry cannot help."""


class BoardBusyError(BoardUnreachableError):
    """Another harness measures on the board and did not end in time; this is no fault of the board."""


class SchedulerUnreachableError(HarnessError):
    """A Dask scheduler is unreachable, or stopped answering."""

    exit_status = 5


class CellsFailedError(HarnessError):
    """Some cells of a sweep failed; the others are in the store."""

    exit_status = 6


class CellsSkippedError(HarnessError):
    """Some cells were skipped because something they need is missing; the others are in the store."""

    exit_status = 9


class LimitsNotMetError(HarnessError):
    """No result meets the user's limits."""

    exit_status = 10


class RegressionError(HarnessError):
    """A figure is worse than the one it was compared with."""

    exit_status = 7


class ThrottledError(HarnessError):
    """Measurements were taken on a throttled board."""

    exit_status = 8


def hint_of(error: OSError) -> str:
    """A hint for a file error of the system; "" if its message is enough."""
    return _HINTS.get(error.errno or 0, "")


def file_error(path: Path | str, error: OSError, *, doing: str = "cannot be read") -> ConfigurationError:
    """A ConfigurationError for a file error of the system."""
    return ConfigurationError(f"{path}: {doing}: {error.strerror}", hint=hint_of(error), where=str(path))


def explained(error: Exception) -> HarnessError | None:
    """The error as a HarnessError with a hint; None for a bug in harness."""
    if isinstance(error, HarnessError):
        return error
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str | bytes):
        return file_error(os.fsdecode(error.filename), error, doing="cannot be used")
    return None
