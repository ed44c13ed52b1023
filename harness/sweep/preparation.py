"""Prepares a sweep: builds the programs of its runtimes and opens its boards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Self

from harness import console
from harness.config.sweep import Build
from harness.config.targets import Target, load_target
from harness.errors import BoardUnreachableError, HarnessError
from harness.locks import Interrupted, loading
from harness.runtimes.base import Program, find_runtime
from harness.sweep.fleet import HOST
from harness.sweep.worker import Worker

if TYPE_CHECKING:
    from harness.boards.base import Board


Request = tuple[str, str, Build]  # runtime, target and toolchain
Programs = Mapping[Request, Program | HarnessError]
OWN = ("engine", HOST, Build())  # evaluates accuracy
OPENING_SECONDS = 3.0  # closing waits this long for boards that are just being opened


def prepare_programs(
    wanted: Iterable[tuple[str, Target, Build]], worker: Worker, algorithms: Collection[str | None] = ()
) -> Programs:
    """Prepares the engine of this machine, and every runtime for every target, in parallel. The programs can
    run `algorithms`. If a program cannot be built, its value is the error.

    Raises the error if the engine of this machine cannot be built.
    """
    runtime, host, build = OWN
    requests: dict[Request, Target] = {(runtime, host, build): load_target(HOST)}
    requests |= {(runtime, target.name, build): target for runtime, target, build in wanted}
    prepared: dict[Request, Program | HarnessError] = {}
    with (
        console.progress("building the engine", total=len(requests)) as bar,
        loading(worker.stop),
        ThreadPoolExecutor(len(requests)) as pool,
    ):
        futures = {
            request: pool.submit(find_runtime(request[0]).prepare, target, request[2], algorithms)
            for request, target in requests.items()
        }
        for request, future in futures.items():
            try:
                prepared[request] = future.result()
            except HarnessError as error:
                if request == OWN:
                    raise
                prepared[request] = error
            bar.advance()
    return prepared


class Boards:
    """The boards of a sweep by name. They are opened in the background and closed at the end."""

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
        # A daemon: if the sweep fails meanwhile, the process does not wait for an image.
        threading.Thread(target=self._enter, args=(name, future), daemon=True).start()

    def get(self, name: str) -> Board:
        """The open board; waits for it. Raises the error if it could not be opened."""
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
        """Closes the open boards in parallel, because a board that no longer answers takes long. Each board's
        `__exit__` gets `cause`, the type of the exception that ended the sweep. Waits OPENING_SECONDS for
        boards that are just being opened; after that, callers that wait for them get Interrupted.

        Raises the error of one board if some could not be closed, after all have been tried.
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
            # Only an emulated board loads this machine: its image is built here. Other boards are opened
            # without the machine's lock: another process may hold the board while it waits for the machine.
            with loading(self._worker.stop) if board.emulated else contextlib.nullcontext():
                board.__enter__()
            with self._lock:
                if not self._closed:
                    future.set_result(board)
                    return
            board.__exit__(None, None, None)
            raise Interrupted
        except BaseException as error:  # noqa: BLE001 - `get` raises it
            with contextlib.suppress(InvalidStateError):
                future.set_exception(error)
