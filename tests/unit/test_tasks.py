"""Tasks: run in threads, and packed for other machines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigurationError, HarnessError, SchedulerUnreachableError
from harness.tasks import dask_runner
from harness.tasks.base import Shared, Stopped, Task, check_stopped, stoppable
from harness.tasks.local import LocalRunner
from harness.tasks.travel import MissingFilesError, Receiver, Sender


class Interrupted(BaseException):
    """As Ctrl-C: no Exception."""


@dataclass(frozen=True)
class Holder:
    file: Path
    number: int


def moved(sender: Sender, receiver: Receiver, value: object) -> Any:
    """A value as the receiver gets it, when it has the files that it asked for."""
    data = sender.packed(value)
    for _ in range(3):
        try:
            return receiver.unpacked(data)
        except MissingFilesError as missing:
            for digest in missing.digests:
                receiver.keep(digest, sender.files[digest].read_bytes())
    raise AssertionError("files are still missing")


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    (tmp_path / "sent").mkdir()
    return Sender(tmp_path / "sent")


@pytest.fixture
def receiver(tmp_path: Path) -> Receiver:
    return Receiver(tmp_path / "received")


def test_files_within_arguments_travel(tmp_path: Path, sender: Sender, receiver: Receiver) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    absent = tmp_path / "absent"
    given = [Holder(tmp_path / "a", 7), {"engine": tmp_path / "run"}, absent]
    held, named, same = moved(sender, receiver, given)
    assert (held.file.read_bytes(), held.number) == (b"weights", 7)
    assert held.file.parent == receiver.folder
    assert named["engine"].stat().st_mode & 0o100
    assert not held.file.stat().st_mode & 0o100
    assert same == absent


def test_a_shared_value_is_packed_and_unpacked_once(
    tmp_path: Path, sender: Sender, receiver: Receiver
) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    shared = Shared(Holder(tmp_path / "a", 7))
    first, second = (moved(sender, receiver, (shared, number)) for number in (1, 2))
    assert first[0] is second[0]
    assert first[0].value.file.read_bytes() == b"weights"
    assert len(sender.files) == 2  # the value and its file
    for number in range(3):
        moved(sender, receiver, Shared(number))
    assert moved(sender, receiver, shared).value == first[0].value


def test_a_file_that_was_damaged_is_asked_for_again(
    tmp_path: Path, sender: Sender, receiver: Receiver
) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    path = moved(sender, receiver, tmp_path / "a")
    path.write_bytes(b"wei")
    assert receiver.missing([path.name]) == [path.name]
    assert moved(sender, receiver, tmp_path / "a").read_bytes() == b"weights"


def test_no_other_content_is_kept_under_a_hash(receiver: Receiver) -> None:
    with pytest.raises(HarnessError, match="changed on its way"):
        receiver.keep("0" * 64, b"something")
    assert receiver.missing(["0" * 64]) == ["0" * 64]


@pytest.mark.parametrize("jobs", [1, 3])
def test_tasks_are_taken_when_there_is_room(jobs: int) -> None:
    running, most, taken = 0, 0, 0
    guard = threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        with guard:
            running -= 1
        return 2 * number

    results: dict[str, int] = {}

    def tasks() -> Iterator[Task]:
        nonlocal taken
        for number in range(10):
            assert taken - len(results) < jobs
            taken += 1
            yield Task(name=str(number), function=work, arguments=(number,))

    LocalRunner(jobs).run(tasks(), results.__setitem__)
    assert results == {str(number): 2 * number for number in range(10)}
    assert most <= jobs


def test_what_is_complete_is_kept_after_an_interruption() -> None:
    together = threading.Barrier(3, timeout=60)

    def work(number: int) -> int:
        if number < 3:
            together.wait()
        if number == 1:
            raise Interrupted
        return number

    found: dict[str, int] = {}
    tasks = [Task(name=str(number), function=work, arguments=(number,)) for number in range(9)]
    with pytest.raises(Interrupted):
        LocalRunner(3).run(tasks, found.__setitem__)
    assert {"0", "2"} <= found.keys() < {str(number) for number in range(9)}


def test_a_task_notices_that_nobody_needs_it() -> None:
    check_stopped()
    asked = False
    with stoppable(lambda: asked):
        check_stopped()
        asked = True
        with pytest.raises(Stopped):
            check_stopped()
    check_stopped()


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        ("tcp://127.0.0.1:1", SchedulerUnreachableError, "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("tls://127.0.0.1:1", ConfigurationError, "TLS"),
        ("nonsense://127.0.0.1:1", ConfigurationError, "nonsense"),
        ("127.0.0.1", ConfigurationError, "missing port"),
    ],
)
def test_a_scheduler_that_cannot_be_reached(
    address: str, kind: type[HarnessError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_runner, "CONNECT_SECONDS", 0.3)
    with pytest.raises(kind, match=said) as caught:
        dask_runner.DaskRunner(address)
    assert "dask scheduler" in caught.value.hint


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_runner, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="distributed is not installed") as caught:
        dask_runner.DaskRunner("tcp://127.0.0.1:1")
    assert "harness[cluster]" in caught.value.hint
