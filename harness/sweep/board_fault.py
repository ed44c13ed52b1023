"""Tells what is a board's fault from what is a cell's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.errors import BoardFaultError, BoardUnreachableError, HarnessError


@contextlib.contextmanager
def boards_fault(*, but: type[HarnessError] | tuple[()] = ()) -> Iterator[None]:
    """What fails in the block is the fault of the board, `but` for errors of that kind: the cell may do well
    on another board, and so will the next cell. Raises BoardFaultError with the error's message and cure."""
    try:
        yield
    except BoardUnreachableError:
        raise
    except HarnessError as error:
        if isinstance(error, but):
            raise
        raise BoardFaultError(error.message, cure=error.cure) from error
