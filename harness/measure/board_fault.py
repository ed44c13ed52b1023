"""Tells faults of boards from faults of cells."""

from __future__ import annotations

from types import TracebackType

from harness.errors import BoardFaultError, BoardUnreachableError, HarnessError


class boards_fault:  # noqa: N801 - for `with`; a function with contextlib would be several times as slow
    """Turns errors in the block into BoardFaultError, except errors of the kinds in `but`: another board may
    measure the cell, and this board should not get the next one."""

    def __init__(self, *, but: type[HarnessError] | tuple[()] = ()) -> None:
        self._spared = (BoardUnreachableError, *((but,) if but else ()))

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HarnessError) and not isinstance(error, self._spared):
            raise BoardFaultError(error.message, hint=error.hint) from error
