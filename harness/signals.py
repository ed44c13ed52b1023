"""How a command ends when a signal asks it to: what it holds is given back first."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """Another signal than Ctrl-C's has asked this process to end; it puts things in order as after that."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_status = 128 + number  # what a shell shows for this signal


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block, which has to be in the main thread, SIGTERM and SIGHUP raise Ended as SIGINT raises
    KeyboardInterrupt.

    The first of the three does, as putting things in order must not be cut short: `timeout` and a terminal
    that closes send theirs twice. SIGINT alone, a person's wish, is heard again. A signal that is ignored,
    as SIGHUP by `nohup`, stays so.
    """
    ending = False

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal ending
        if not ending or number == signal.SIGINT:
            ending = True
            if number == signal.SIGHUP:
                _leave_terminal()
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)

    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_terminal() -> None:
    """Where the terminal is gone, what is said goes nowhere: it would fail, and cut short what says it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        try:
            os.get_terminal_size(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
