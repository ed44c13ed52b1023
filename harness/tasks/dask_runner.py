"""Runs tasks on the workers of a Dask cluster.

Dask gives the tasks of a worker that died, or was silent for too long, to others, and takes one answer for
each task. What is here: files travel by their hash to workers that lack them, and a worker whose results
could differ from this machine's is an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any

from harness import console
from harness.errors import ConfigurationError, HarnessError, SchedulerUnreachableError
from harness.tasks import dask_worker
from harness.tasks.base import Task, check_stopped
from harness.tasks.travel import Sender
from harness.temporary import temporary_folder

CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 5.0  # of the scheduler
_CANCEL_SECONDS = 3.0
_LOOK_SECONDS = 1.0  # between two looks at the number of workers
_PER_THREAD = 2  # tasks that are sent to the cluster at once
_FEWEST = 8  # also without workers: a cluster may start them when there are tasks
_DELIVERIES = 10  # of files for one task


@dataclass(eq=False)
class _Sent:
    """A task on its way. `future` is None while files are sent for it."""

    task: Task
    data: bytes
    future: Any = None
    deliveries: int = 0


@dataclass(frozen=True)
class _Event:
    """A task has an answer, or its files were sent, or could not be."""

    sent: _Sent
    error: HarnessError | None = None


class DaskRunner:
    """Runs tasks on all workers of a scheduler, at most `jobs` at once. For any thread."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        """Raises ConfigurationError without Dask, and SchedulerUnreachableError if nothing answers."""
        if find_spec("distributed") is None:
            raise ConfigurationError(
                "the Python package distributed is not installed",
                hint="Install it with `pip install 'harness[cluster]'`.",
            )
        self._address, self._jobs = address, jobs
        self._resources = contextlib.ExitStack()
        self._client = self._connected()
        with contextlib.ExitStack() as stack:
            stack.callback(self._close_client)
            self._sender = Sender(stack.enter_context(temporary_folder("sent")))
            self._resources = stack.pop_all()
        self._packing = threading.Lock()
        self._delivering: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by worker
        self._looked, self._threads, self._told = 0.0, 0, False

    def _connected(self) -> Any:
        from distributed import Client

        for name in logging.root.manager.loggerDict:
            if name.startswith("distributed"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are told here
        try:
            asyncio.run(_reach(self._address))  # a Client that cannot connect takes long to end
            return Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False, name="harness")
        except (ValueError, TypeError, RuntimeError) as error:
            raise ConfigurationError(
                f"--scheduler {self._address}: {error}",
                hint="Give the address that `dask scheduler` prints, such as tcp://127.0.0.1:8786. tls:// "
                "needs certificates in Dask's configuration.",
            ) from None
        except OSError:
            raise SchedulerUnreachableError(
                f"no Dask scheduler answers at {self._address} within {CONNECT_SECONDS:g} s",
                hint="Start one with `dask scheduler`, and give the address that it prints.",
            ) from None

    @property
    def at_once(self) -> int:
        self._look()
        return min(self._jobs or self._threads, self._threads)

    def run(self, tasks: Iterable[Task], done: Callable[[str, Any], object]) -> None:
        run = uuid.uuid4().hex
        waiting = iter(tasks)
        on_their_way: set[_Sent] = set()
        events: SimpleQueue[_Event] = SimpleQueue()
        with ThreadPoolExecutor(thread_name_prefix="files") as couriers:
            try:
                exhausted = False
                while True:
                    check_stopped()
                    while not exhausted and len(on_their_way) < self._room():
                        task = next(waiting, None)
                        if task is None:
                            exhausted = True
                        else:
                            with self._packing:
                                data = self._sender.packed((task.function, task.arguments))
                            sent = _Sent(task, data)
                            on_their_way.add(sent)
                            self._submit(sent, run, events)
                    if not on_their_way:
                        return
                    with contextlib.suppress(Empty):
                        event = events.get(timeout=_LOOK_SECONDS)
                        answer = self._answer(event)
                        if answer is None:
                            self._submit(event.sent, run, events)
                        elif answer.missing:
                            event.sent.future = None
                            couriers.submit(self._deliver, event.sent, answer, events)
                        else:
                            on_their_way.remove(event.sent)
                            done(event.sent.task.name, answer.result)
            except BaseException:
                couriers.shutdown(wait=False, cancel_futures=True)
                self._cancel(run, on_their_way, done)
                raise

    def close(self) -> None:
        self._resources.close()

    def _submit(self, sent: _Sent, run: str, events: SimpleQueue[_Event]) -> None:
        sent.future = self._client.submit(
            dask_worker.perform,
            sent.data,
            run,
            dask_worker.versions(),
            key=f"harness-{uuid.uuid4().hex}",
            pure=False,
        )
        sent.future.add_done_callback(lambda _future: events.put(_Event(sent)))

    def _answer(self, event: _Event) -> dask_worker.Answer | None:
        """The answer to a task; None if it has to be sent again, since its files were delivered."""
        from distributed import KilledWorker

        if event.error:
            raise event.error
        if event.sent.future is None:
            return None
        if event.sent.future.status in {"cancelled", "lost"}:
            raise self._gone()
        try:
            answer: dask_worker.Answer = event.sent.future.result(timeout=_ANSWER_SECONDS)
        except KilledWorker as error:
            raise HarnessError(
                f"a task ended all workers that tried it; the last one was {error.last_worker.address}",
                hint="See the logs of the workers: often their memory is too small.",
            ) from None
        except ImportError as error:
            raise ConfigurationError(
                f"{self._address}: the scheduler or a worker cannot import harness: {error}",
                hint="Install the same `harness[cluster]` on all machines.",
            ) from None
        except TimeoutError:
            raise self._gone() from None
        if answer.error:
            answer.error.message = f"worker {answer.worker} on {answer.host}: {answer.error.message}"
            answer.error.where = answer.worker
            raise answer.error
        return answer

    def _deliver(self, sent: _Sent, answer: dask_worker.Answer, events: SimpleQueue[_Event]) -> None:
        """Sends files to a worker that lacks them, for a task that is then sent again, to any worker."""
        error: HarnessError | None = None
        sent.deliveries += 1
        to = {"workers": [answer.worker]}
        try:
            if sent.deliveries > _DELIVERIES:
                raise HarnessError(
                    f"worker {answer.worker} on {answer.host}: loses the files that it gets",
                    hint="Check its cache folder.",
                )
            with self._delivering[answer.worker]:
                lacking = self._client.run(dask_worker.missing_files, answer.missing, **to)
                for digest in lacking[answer.worker]:
                    data = self._sender.files[digest].read_bytes()
                    self._client.run(dask_worker.keep_file, digest, data, **to)
        except HarnessError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - the worker has gone: another one gets the task
            console.log(f"worker {answer.worker} on {answer.host}: got no files ({type(failure).__name__})")
        events.put(_Event(sent, error))

    def _room(self) -> int:
        """The number of tasks that may be on their way."""
        self._look()
        room = max(_PER_THREAD * self._threads, _FEWEST)
        return min(self._jobs or room, room)

    def _look(self) -> None:
        """Counts the threads of the workers from time to time."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            try:
                cores = self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER_SECONDS)
            except (OSError, TimeoutError):
                raise self._gone() from None
            if not cores and not self._told:
                console.log(f"{self._address}: waiting for workers; `dask worker {self._address}` starts one")
                self._told = True
            self._threads = sum(cores.values())

    def _cancel(self, run: str, on_their_way: set[_Sent], done: Callable[[str, Any], object]) -> None:
        """Ends what runs on the workers, and keeps what is complete."""
        futures = [sent.future for sent in on_their_way if sent.future is not None]
        with contextlib.suppress(Exception):
            for sent in on_their_way:
                if sent.future is not None and sent.future.status == "finished":
                    answer = sent.future.result(timeout=_CANCEL_SECONDS)
                    if answer.result is not None:
                        done(sent.task.name, answer.result)
        with contextlib.suppress(Exception):
            self._client.sync(self._client.cancel, futures, force=True, callback_timeout=_CANCEL_SECONDS)
            self._client.sync(
                self._client.run,
                dask_worker.end_run,
                run,
                on_error="ignore",
                callback_timeout=_CANCEL_SECONDS,
            )

    def _close_client(self) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            self._client.close(timeout=_CANCEL_SECONDS)

    def _gone(self) -> SchedulerUnreachableError:
        return SchedulerUnreachableError(
            f"the Dask scheduler at {self._address} does not answer any more",
            hint="Start it again, and repeat the command: finished evaluations are kept.",
        )


async def _reach(address: str) -> None:
    """Connects to a scheduler once. Raises OSError or TimeoutError if it does not answer."""
    from distributed.comm import connect
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    connection = await asyncio.wait_for(
        connect(address, timeout=CONNECT_SECONDS, **arguments), CONNECT_SECONDS
    )
    connection.abort()
