"""Tells what is a board's fault from what is a cell's own."""

from __future__ import annotations

from types import TracebackType

from harness.errors import BoardFaultError, BoardUnreachableError, HarnessError


class boards_fault:  # noqa: N801 - it is for `with`; one of contextlib's costs several times as much
    """What fails in the block is the fault of the board, `but` for errors of that kind: the cell may do well
    on another board, and so will the next cell. Raises BoardFaultError with the error's message and hint."""

    def __init__(self, *, but: type[HarnessError] | tuple[()] = ()) -> None:
        self._spared = (BoardUnreachableError, *((but,) if but else ()))

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HarnessError) and not isinstance(error, self._spared):
            raise BoardFaultError(error.message, hint=error.hint) from error
