"""Processes of tests end with the tests, and receive signals that the test process ignores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from started_processes import end_what_was_started, findable_as, running

REPOSITORY = Path(__file__).resolve().parents[2]

TESTS = """
import signal, subprocess, sys, time
from pathlib import Path
import pytest

def hears(number):
    code = f"import signal; print(signal.getsignal({int(number)}) is signal.SIG_IGN)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\\n"

@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_signals(number):
    assert hears(number)

def test_leaves_something():
    script = "setsid sleep 300 & setsid sh -c 'sleep 300 & wait' & echo $$"
    subprocess.run(["sh", "-c", script], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    Path("started").write_text(" ".join(map(str, sleeping())))
    assert len(sleeping()) == 2
    raise ValueError("a failure in the middle")

def test_finds_nothing_of_it():
    assert sleeping() == []

def sleeping():
    here = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            folder = (path.parent / "cwd").resolve()
            if path.read_bytes() == b"sleep\\0" + b"300\\0" and folder == Path.cwd():
                here.append(path.parent.name)
        except OSError:
            pass
    return here
"""


def test_one_failure_causes_no_other_under_nohup(tmp_path: Path) -> None:
    """As in a CI runner: SIGHUP is ignored, and SIGINT as in a shell's background job."""
    (tmp_path / "test_inner.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text((REPOSITORY / "tests" / "conftest.py").read_text())

    def ignore() -> None:
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "test_inner.py",
    ]
    words += [f"--rootdir={tmp_path}", "-o", f"pythonpath={REPOSITORY / 'tests' / 'unit'}"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=ignore,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "a failure in the middle" in done.stdout
    assert "ended after the failure:\n  sleep 300" in done.stdout + done.stderr
    assert len((tmp_path / "started").read_text().split()) == 2


def test_processes_started_before_the_block_go_on() -> None:
    with running(["sleep", "60"]) as before:
        with findable_as("block"):
            # Before it executes sleep, the shell's child still has the shell's command line.
            as_sleep = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'
            subprocess.run(["sh", "-c", f"setsid sleep 61 & {as_sleep}"], check=True)
            until = time.monotonic() + 30
            while not (ended := end_what_was_started()):
                assert time.monotonic() < until
            assert [words.split()[-2:] for words in ended] == [["sleep", "61"]]
            assert end_what_was_started() == []
        assert before.poll() is None


def test_a_block_that_fails_does_not_wait_for_its_process() -> None:
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError), running(["sleep", "60"]) as process:
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 30
