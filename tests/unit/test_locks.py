"""Waiting for another harness: the user learns which process holds the lock, and nothing of short waits."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import locks
from harness.locks import holders, loading, lock_file, measuring, using

HOLD = """
import sys
from harness.locks import loading, measuring, using
with {block}:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(locks, "TELL_SECONDS", 0.1)


@contextlib.contextmanager
def other(block: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a lock until its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD.format(block=block)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ("measuring()", "measuring()"),
        ("measuring()", "loading()"),
        ("loading()", "measuring()"),
        ("using('board 1')", "using('board 1')"),
    ],
)
def test_who_waits_says_for_which_process(held: str, wanted: str) -> None:
    with (
        other(held) as holder,
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                (
                    "from harness import locks\nfrom harness.locks import *\nlocks.TELL_SECONDS = 0.1\n"
                    f"with locks.{wanted}: print('mine')"
                ),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as waiting,
    ):
        assert waiting.stderr
        said = waiting.stderr.readline()
        assert f"waiting for another harness (process {holder.pid}) ..." in said
        assert holder.stdin
        holder.stdin.close()
        out, rest = waiting.communicate(timeout=30)
        assert (out, rest) == ("mine\n", "")


def test_a_lock_that_is_free_is_taken_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    with measuring():
        assert len(holders(lock_file("machine"))) == 1
    with loading(), using("board 1"):
        pass
    assert holders(lock_file("machine")) == set()
    assert capsys.readouterr().err == ""


def test_waiting_for_work_of_this_process_is_no_news(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    def found(path: Path) -> set[int]:
        holding = holders(path)
        looked.set()
        return holding

    monkeypatch.setattr(locks, "holders", found)

    def measure() -> None:
        with measuring():
            pass

    with loading():
        thread = threading.Thread(target=measure)
        thread.start()
        assert looked.wait(30)
    thread.join()
    assert capsys.readouterr().err == ""
