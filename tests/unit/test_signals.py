"""Ends by signal, through real processes: what a command holds is given back, and the status says which."""

from __future__ import annotations

import _imp
import functools
import importlib
import os
import pty
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import signals
from harness.signals import Ended, ended_by_signals

# A command that holds something, and takes its time to give it back.
COMMAND = """
import signal, sys, time
from pathlib import Path
from harness import cli, console
from harness.commands import schema

def run(arguments):
    with console.progress("working", None):
        try:
            Path("held").touch()
            time.sleep(60)
        finally:
            Path("ending").touch()
            time.sleep(0.5)
            print("given back", file=sys.stderr, flush=True)
            Path("held").unlink()

schema.run = run
sys.exit(cli.main(["schema", *sys.argv[1:]]))
"""

CONTROLLED = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"


def start(folder: Path, *ignored: signal.Signals, words: Sequence[str] = ()) -> subprocess.Popen[str]:
    def ignore() -> None:  # and what a shell ignores for its background jobs is as in its others
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,  # noqa: PLW1509 - no threads here
    )
    wait_for(folder / "held")
    return process


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
    ],
)
@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGHUP])
def test_resources_are_released_despite_further_signals(
    number: signal.Signals, status: int, said: str, again: signal.Signals, tmp_path: Path
) -> None:
    process = start(tmp_path)
    process.send_signal(number)
    wait_for(tmp_path / "ending")
    process.send_signal(again)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == status
    assert stderr.endswith(f"given back\nharness: {said}\n")
    assert not (tmp_path / "held").exists()


WAITING = """
import signal, sys, threading, time
from harness import cli
from harness.commands import schema

too_early = int(sys.argv[1])  # so many wake-ups come before the wait
deliver = signal.pthread_kill

def pthread_kill(thread, number):
    global too_early
    if number == signal.SIGURG and too_early > 0:
        too_early -= 1
    else:
        deliver(thread, number)

signal.pthread_kill = pthread_kill

def elsewhere():
    time.sleep(0.5)  # the main thread waits by now
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

def run(arguments):
    threading.Thread(target=elsewhere).start()
    threading.Event().wait()

schema.run = run
sys.exit(cli.main(["schema"]))
"""


@pytest.mark.parametrize("too_early", [0, 2])
def test_a_signal_that_another_thread_gets_ends_the_wait(too_early: int) -> None:
    words = [sys.executable, "-c", WAITING, str(too_early)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (143, "harness: ended by SIGTERM\n")


def test_ctrl_c_interrupts_the_release(tmp_path: Path) -> None:
    process = start(tmp_path)
    process.send_signal(signal.SIGTERM)
    wait_for(tmp_path / "ending")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "given back" not in stderr
    assert (tmp_path / "held").exists()


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    process = start(tmp_path, signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert not (tmp_path / "ending").exists()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_terminal_that_is_closed_ends_the_command(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLED + COMMAND],
        cwd=tmp_path,
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(end)
    wait_for(tmp_path / "held")
    shown = b""
    while b"working" not in shown:  # a bar, which goes on being drawn
        shown += os.read(terminal, 1000)
    os.close(terminal)
    assert process.wait(timeout=30) == 129
    assert not (tmp_path / "held").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_error_of_the_release_does_not_hide_the_signal(number: signal.Signals) -> None:
    def interrupted() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            os.close(-1)

    with pytest.raises(KeyboardInterrupt) as caught, ended_by_signals():
        interrupted()
    assert isinstance(caught.value, Ended) == (number == signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_python_drops_ends_the_command(number: signal.Signals) -> None:
    class Held:
        pass

    def dropped() -> None:
        held = Held()
        _reference = weakref.ref(held, lambda _: signal.raise_signal(number))
        del held
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt) as caught, ended_by_signals():
        dropped()
    assert isinstance(caught.value, Ended) == (number == signal.SIGTERM)


def test_an_import_that_takes_its_locks_is_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_once.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    # In C: the handler has to run in the frame of importlib.
    locks = {
        "acquire_lock": functools.partial(signal.raise_signal, signal.SIGTERM),
        "release_lock": functools.partial(int),
    }

    def importing() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(importlib._bootstrap, "_imp", SimpleNamespace(**vars(_imp) | locks))
            importlib.import_module("imported_once")
        time.sleep(10)

    with pytest.raises(Ended) as caught, ended_by_signals():
        importing()
    places = [entry.frame.code.raw.co_filename for entry in caught.traceback]
    interrupted = [place for place in places if place != signals.__file__][-1]
    assert "importlib" not in interrupted


def test_other_errors_pass() -> None:
    with pytest.raises(OSError, match="descriptor"), ended_by_signals():
        os.close(-1)
