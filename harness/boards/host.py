"""This machine as a board: programs run here, files stay where they are."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.boards.base import (
    MOST_FETCHED,
    MOST_OUTPUT,
    Completed,
    Profiler,
    RunTimeoutError,
    TooMuchOutputError,
)
from harness.boards.paths import BoardPaths
from harness.errors import BoardUnreachableError, ConfigurationError, HarnessError
from harness.files import write_atomically
from harness.process_group import guard, kill_group, process_group
from harness.qemu.counter import prepare_counter, read_count
from harness.temporary import temporary_folder

if TYPE_CHECKING:
    from harness.config.targets import Target

_PIECE = 1 << 16  # bytes read at once
_REMOVE = 'rm -rf -- "$1"'


class HostBoard:
    """Runs programs on this machine, each in its own process group, which ends with this process."""

    emulated = False
    profiler: Profiler | None = None

    def __init__(self, target: Target) -> None:
        self.name = "host"
        self.target = target
        self.sensors = BoardPaths()
        self.restore_script = str(Path.home() / ".harness-undo")
        self._running: set[int] = set()  # process groups
        self._opened = contextlib.ExitStack()
        self._closed = False
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self._closed = False
        self._folder = self._opened.enter_context(temporary_folder("host"))
        self._opened.enter_context(guard(_REMOVE, str(self._folder)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kills running programs, for example when another thread aborts the sweep; no other can start."""
        self._closed = True
        while self._running:
            kill_group(self._running.pop())
        self._folder = None
        self._opened.close()

    def lock(self, pause: Callable[[float], object]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Every measurement on this machine takes harness.locks instead."""
        return contextlib.nullcontext()

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        """The files' own paths."""
        for path in files.values():
            if not path.is_file():
                raise ConfigurationError(f"{path}: there is no such file to deploy")
        return {name: str(path.resolve()) for name, path in files.items()}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        with (
            self._group() as group,
            _started(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=group,
                env=os.environ | environment if environment else None,
            ) as process,
        ):
            if group not in self._running:  # the group was killed before the program joined it
                kill_group(group)
            try:
                stdout, stderr = _printed(process, timeout, most_output)
            except subprocess.TimeoutExpired:
                raise RunTimeoutError(argv, self.name, timeout) from None
            except _FloodedError:
                raise TooMuchOutputError(argv, self.name, most_output) from None
            finally:
                if process.returncode is None:  # timeout, interrupt, or too much output
                    kill_group(group)
        return Completed(status=process.returncode, stdout=stdout, stderr=stderr)

    @contextlib.contextmanager
    def _group(self) -> Iterator[int]:
        """A process group; its processes are killed at the end. Raises BoardUnreachableError if closed."""
        with process_group() as group:
            self._running.add(group)
            try:
                if self._closed:  # by another thread
                    raise self._gone()
                yield group
            finally:
                self._running.discard(group)

    @property
    def instruction_counter(self) -> Self | None:
        return self

    def count_instructions(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> tuple[Completed, int]:
        counter = prepare_counter()
        with temporary_folder("count") as folder:
            output = folder / "count"
            completed = self.run(counter.command(argv, environment or {}, output), timeout=timeout)
            return completed, read_count(output) if completed.status == 0 else 0

    def scratch(self, name: str) -> str:
        if self._folder is None:
            raise self._gone()
        return str(self._folder / name)

    def _gone(self) -> BoardUnreachableError:
        return BoardUnreachableError(f"{self.name} is closed")

    def fetch(self, remote: str, local: Path) -> None:
        try:
            with Path(remote).open("rb") as stream:
                data = stream.read(MOST_FETCHED + 1)
        except OSError as error:
            raise HarnessError(f"{remote}: cannot be read on {self.name}: {error.strerror}") from None
        if len(data) > MOST_FETCHED:
            raise HarnessError(f"{remote}: is larger than {MOST_FETCHED >> 20} MB")
        write_atomically(local, data)


class _FloodedError(Exception):
    pass


def _printed(process: subprocess.Popen[bytes], timeout: float, most_output: int) -> tuple[str, str]:
    """The standard output and standard error of a process until its end."""
    deadline = time.monotonic() + timeout
    assert process.stdout is not None
    assert process.stderr is not None
    printed: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    left = most_output
    with selectors.DefaultSelector() as selector:
        for descriptor in printed:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(process.args, timeout)
            for key, _ in ready:
                data = os.read(key.fd, _PIECE)
                left -= len(data)
                if left < 0:
                    raise _FloodedError
                if data:
                    printed[key.fd].append(data)
                else:
                    selector.unregister(key.fd)
    process.wait(max(deadline - time.monotonic(), 0))
    stdout, stderr = (b"".join(pieces).decode("utf-8", "replace") for pieces in printed.values())
    return stdout, stderr


def _started(argv: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(argv), **more)
    except OSError as error:
        raise HarnessError(f"{argv[0]}: cannot be started: {error.strerror}") from None
