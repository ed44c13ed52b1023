"""The errors a user can meet, each class with the exit status of its kind."""

from __future__ import annotations


class HarnessError(Exception):
    """What was wrong and where (`message`), and what to do about it (`cure`)."""

    exit_status = 1

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message}\n  {self.cure}" if self.cure else self.message


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
    """A board cannot be reached, or stopped answering."""

    exit_status = 5


class BoardRefusedError(BoardUnreachableError):
    """A board lets nobody in, or is not the one that is known: trying again is of no use."""


class BoardBusyError(HarnessError):
    """Another harness measures on a board, and did not end in time."""

    exit_status = 5


class CellsFailedError(HarnessError):
    """Some cells of a sweep failed; the others are in the store."""

    exit_status = 6


class RegressionError(HarnessError):
    """A figure is worse than the one it was compared with."""

    exit_status = 7


class ThrottledError(HarnessError):
    """Measurements were taken on a throttled board."""

    exit_status = 8
