"""Ends a command on a signal in an orderly way: it releases its resources first."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAKE = signal.SIGURG  # ignored by default, and sent by no one else
_AGAIN_SECONDS = 0.1


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C's: the process ends in the same orderly way."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_status = 128 + number  # the status by which a shell reports this signal


def end_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The exception of a signal in whose place an error has come, if there is one.

    A signal may come between two steps of a clean-up, such as the closing of a descriptor and the note that
    it is closed. What is then done a second time fails, and its error takes the place of the signal's.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """While the block runs, SIGTERM and SIGHUP raise Ended, and SIGINT raises KeyboardInterrupt. For the main
    thread.

    Only the first signal counts, so that the clean-up is not interrupted: `timeout` and a closed terminal
    send their signals twice. A second SIGINT, sent by the user, does interrupt it. A signal that is ignored
    at the start, such as SIGHUP under `nohup`, stays ignored.
    """
    ending = _Ending()
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ending.hear) for number in heard}
    try:
        with _waking_the_main_thread(ending):
            yield
    except Exception as error:
        if end_error := end_behind(error):
            raise end_error from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Ending:
    """The signal that ends the command, until its exception has been raised where it is not lost."""

    def __init__(self) -> None:
        self.due: int | None = None  # a signal whose exception has to be raised
        self.raised: int | None = None
        self.wakes = 0  # how often the main thread was woken

    def hear(self, number: int, frame: FrameType | None) -> None:
        """The handler of signals that end the command."""
        if (self.due or self.raised) is None or number == signal.SIGINT:
            self.due = number
        self._raise(frame)

    def wake(self, _number: int, frame: FrameType | None) -> None:
        """The handler of the signal that wakes the main thread."""
        self.wakes += 1
        self._raise(frame)

    def lose(self) -> None:
        """Python has dropped the exception, as it does in weakref callbacks and __del__."""
        self.due = self.raised

    def _raise(self, frame: FrameType | None) -> None:
        if self.due is None or _takes_no_exceptions(frame):
            return
        number, self.due = self.due, None
        self.raised = number
        if number == signal.SIGHUP:
            _leave_terminal()
        raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)


def _takes_no_exceptions(frame: FrameType | None) -> bool:
    """Whether an exception in this frame would leave importlib or this module in disorder.

    importlib takes its locks outside of `try`: an exception right after that leaves them locked, and the next
    import of any other thread waits for ever.
    """
    if frame is None:
        return False
    importing = frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")
    return importing or frame.f_globals is globals()


@contextlib.contextmanager
def _waking_the_main_thread(ending: _Ending) -> Iterator[None]:
    """While the block runs, every signal interrupts the wait of the main thread, which runs all handlers.

    The kernel may deliver a signal to any thread. On a busy machine it is often the one that has just started
    a process, because that blocks signals meanwhile. The main thread would not notice before its wait ends,
    nor would it if a signal came just before the wait began: so it is woken until it has noticed, and until
    it has raised the exception that is due.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    main = threading.main_thread().ident
    assert main is not None
    over = threading.Event()

    def wake() -> None:
        while numbers := reader.recv(64):
            if set(numbers) - {_WAKE}:
                earlier = ending.wakes
                while ending.wakes == earlier or ending.due is not None:
                    signal.pthread_kill(main, _WAKE)
                    if over.wait(_AGAIN_SECONDS):
                        break

    def lose(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            ending.lose()
            writer.send(bytes([signal.SIGTERM]))  # wake() acts on any number other than _WAKE
        else:
            hook(lost)

    waker = threading.Thread(target=wake, name="waker", daemon=True)
    handler = signal.signal(_WAKE, ending.wake)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    hook, sys.unraisablehook = sys.unraisablehook, lose
    try:
        waker.start()
        yield
    finally:
        over.set()
        sys.unraisablehook = hook
        signal.set_wakeup_fd(before)
        writer.close()
        waker.join()
        reader.close()
        signal.signal(_WAKE, handler)


def _leave_terminal() -> None:
    """Redirects output to /dev/null if the terminal is gone, so that later messages do not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        try:
            os.get_terminal_size(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
