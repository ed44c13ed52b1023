"""What a sweep needs before its first cell: engines and open boards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from harness import console
from harness.configuration.matrix import Build
from harness.errors import HarnessError
from harness.sweep import fingerprint
from harness.sweep.machine_lock import Interrupted, loading
from harness.sweep.worker import Worker

if TYPE_CHECKING:
    from harness.boards.board import Board

HOST = "host"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine built for a target."""

    path: Path
    sha256: str


Engines = Mapping[tuple[str, Build], Engine | HarnessError]  # by target and toolchain
OWN = (HOST, Build())  # what accuracy is evaluated with


def build_engines(wanted: Iterable[tuple[str, Build]], worker: Worker) -> Engines:
    """Builds the engine for the host and for every target, at once. A target's error is its result.

    Raises the error where the host's engine cannot be built.
    """
    names = list(dict.fromkeys([OWN, *wanted]))
    built: dict[tuple[str, Build], Engine | HarnessError] = {}
    with (
        console.progress("building the engine", total=len(names)) as bar,
        loading(worker.stop),
        ThreadPoolExecutor(len(names)) as pool,
    ):
        futures = {name: pool.submit(_build, *name) for name in names}
        for name, future in futures.items():
            try:
                built[name] = future.result()
            except HarnessError as error:
                if name == OWN:
                    raise
                built[name] = error
            bar.advance()
    return built


def _build(name: str, build: Build) -> Engine:
    from harness.build.engine import build_engine
    from harness.configuration.targets import load_target

    path = build_engine(load_target(name), toolchain=build.toolchain, flags=build.flags).engine
    return Engine(path=path, sha256=fingerprint.of_file(path))


class Boards:
    """The boards of a sweep, each opened once, in the background; all are closed at the end."""

    def __init__(self, worker: Worker, open_board: Callable[[str], Board]) -> None:
        self._worker = worker
        self._open_board = open_board
        self._lock = threading.Lock()
        self._boards: dict[str, Future[Board]] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, target: str) -> None:
        """Begins to open a target's board. This may build its image, which takes minutes."""
        with self._lock:
            if self._closed:
                raise Interrupted
            if target in self._boards:
                return
            future: Future[Board] = Future()
            self._boards[target] = future
        # A daemon: when the sweep fails meanwhile, nobody waits for an image.
        threading.Thread(target=self._enter, args=(target, future), daemon=True).start()

    def get(self, target: str) -> Board:
        """The open board of a target. Raises what went wrong with opening it."""
        self.open(target)
        return self._boards[target].result()

    def close(self) -> None:
        """Closes the boards that are open."""
        with self._lock:
            opened = [future for future in self._boards.values() if future.done() and not future.exception()]
            self._boards.clear()
            self._closed = True
        for future in opened:
            future.result().__exit__(None, None, None)

    def _enter(self, target: str, future: Future[Board]) -> None:
        try:
            # The host's is opened at once: a measurement that has the machine to itself may wait for it.
            with nullcontext() if target == HOST else loading(self._worker.stop):
                board = self._open_board(target).__enter__()
            with self._lock:
                if not self._closed:
                    future.set_result(board)
                    return
            board.__exit__(None, None, None)
            raise Interrupted
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the board
            future.set_exception(error)
