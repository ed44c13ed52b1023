"""What a sweep needs before its first cell: engines and open boards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from harness import console
from harness.config.sweep import Build
from harness.config.targets import Target, load_target
from harness.errors import BoardUnreachableError, HarnessError
from harness.file_digest import file_digest
from harness.locks import Interrupted, loading
from harness.sweep.fleet import HOST
from harness.sweep.worker import Worker

if TYPE_CHECKING:
    from harness.boards.base import Board


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine built for a target."""

    path: Path
    sha256: str


Engines = Mapping[tuple[str, Build], Engine | HarnessError]  # by the name of the target, and toolchain
OWN = (HOST, Build())  # what accuracy is evaluated with
OPENING_SECONDS = 3.0  # that closing waits for boards that are just being opened


def build_engines(wanted: Iterable[tuple[Target, Build]], worker: Worker) -> Engines:
    """Builds the engine for the host and for every target, at once. A target's error is its result.

    Raises the error where the host's engine cannot be built.
    """
    targets = {OWN: load_target(HOST)} | {(target.name, build): target for target, build in wanted}
    built: dict[tuple[str, Build], Engine | HarnessError] = {}
    with (
        console.progress("building the engine", total=len(targets)) as bar,
        loading(worker.stop),
        ThreadPoolExecutor(len(targets)) as pool,
    ):
        futures = {name: pool.submit(_build, target, name[1]) for name, target in targets.items()}
        for name, future in futures.items():
            try:
                built[name] = future.result()
            except HarnessError as error:
                if name == OWN:
                    raise
                built[name] = error
            bar.advance()
    return built


def _build(target: Target, build: Build) -> Engine:
    from harness.build.engine import build_engine

    path = build_engine(target, toolchain=build.toolchain, flags=build.flags).engine
    return Engine(path=path, sha256=file_digest(path))


class Boards:
    """The boards of a sweep, opened in the background and by name; all are closed at the end."""

    def __init__(self, worker: Worker, open_board: Callable[[str], Board]) -> None:
        self._worker = worker
        self._open_board = open_board
        self._lock = threading.Lock()
        self._boards: dict[str, Future[Board]] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kind)

    def open(self, name: str) -> None:
        """Begins to open a board. This may build its image, which takes minutes."""
        with self._lock:
            if self._closed:
                raise Interrupted
            if name in self._boards:
                return
            future: Future[Board] = Future()
            self._boards[name] = future
        # A daemon: when the sweep fails meanwhile, nobody waits for an image.
        threading.Thread(target=self._enter, args=(name, future), daemon=True).start()

    def get(self, name: str) -> Board:
        """The open board. Raises what went wrong with opening it."""
        self.open(name)
        with self._lock:
            if self._closed:
                raise Interrupted
            future = self._boards[name]
        return future.result()

    def drop(self, name: str) -> None:
        """Forgets a board that failed: the next `get` opens it anew."""
        with self._lock:
            future = self._boards.pop(name, None)
        if future is not None and future.done() and not future.exception():
            future.result().__exit__(BoardUnreachableError, None, None)

    def close(self, cause: type[BaseException] | None = None) -> None:
        """Closes the boards that are open, at once, as one that has fallen silent takes its time. Each is
        told the `cause` where something was cut short. Those that are just being opened have some seconds to
        be closed as well; whoever waits for one that takes longer gets Interrupted.

        Raises what went wrong with one of them when all have been tried.
        """
        with self._lock:
            futures = list(self._boards.values())
            opened = [future.result() for future in futures if future.done() and not future.exception()]
            self._boards.clear()
            self._closed = True
        with ThreadPoolExecutor(len(opened) + 1) as pool:
            pool.submit(wait, futures, timeout=OPENING_SECONDS)
            closing = [pool.submit(board.__exit__, cause, None, None) for board in opened]
        for future in futures:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(Interrupted())
        for closed in closing:
            closed.result()

    def _enter(self, name: str, future: Future[Board]) -> None:
        try:
            board = self._open_board(name)
            # Only an emulated board loads this machine, as its image is built here. Who opens another one may
            # wait long for somebody else, and who waits must not keep this machine from a measurement: that
            # may be what the other one waits for.
            with loading(self._worker.stop) if board.emulated else contextlib.nullcontext():
                board.__enter__()
            with self._lock:
                if not self._closed:
                    future.set_result(board)
                    return
            board.__exit__(None, None, None)
            raise Interrupted
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the board
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)
