"""Runs tasks in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

from harness.tasks.base import Task


class LocalRunner:
    """Runs at most `jobs` tasks at once. They should spend their time in processes that they start."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    @property
    def at_once(self) -> int:
        return self._jobs

    def run(self, tasks: Iterable[Task], done: Callable[[str, Any], object]) -> None:
        waiting = iter(tasks)
        running: dict[Future[Any], str] = {}
        with ThreadPoolExecutor(self._jobs, thread_name_prefix="task") as pool:
            try:
                while True:
                    for task in islice(waiting, self._jobs - len(running)):
                        running[pool.submit(task.function, *task.arguments)] = task.name
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        name = running[future]
                        result = future.result()
                        del running[future]
                        done(name, result)
            except BaseException:
                pool.shutdown(cancel_futures=True)  # waits for those that run
                for future, name in running.items():
                    if not future.cancelled() and future.exception() is None:
                        done(name, future.result())
                raise

    def close(self) -> None:
        """There is no connection."""
