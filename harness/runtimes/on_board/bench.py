"""The protocol of a measurement, the same for all runtimes."""

from __future__ import annotations

import contextlib
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .tensors import random_inputs, shapes_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

# What a profiler from outside looks for.
WARM_CACHES, START, END = 7777776, 7777777, 7777778
# A kernel counts a thread's time in ticks of up to 10 ms: shorter measurements tell nothing about threads.
_LONG_ENOUGH_NS = 100_000_000
_NOISE = 0.1  # of each thread's time


def bench(runtime: Any, arguments: argparse.Namespace, interpreter: int) -> dict[str, object]:
    """Measures a model. A sample is a call: it hands over the inputs and fetches the outputs. `interpreter`:
    the bytes that Python and NumPy need alone."""
    session = runtime.load(arguments.model, threads=arguments.threads, options=arguments.option)
    shapes = shapes_of(session.inputs, arguments.picture)
    session.resize(shapes)
    inputs = random_inputs(session.inputs, shapes)
    if arguments.mark:
        samples, threads = marked(lambda: session.run(inputs), arguments.warmup), None
    else:
        samples, threads = measured(
            lambda: session.run(inputs), arguments.warmup, arguments.runs, arguments.min_seconds
        )
    document = {
        "version": runtime.version(),
        "samples_ns": samples,
        "threads": threads,
        "interpreter_rss_bytes": interpreter,
        "peak_rss_bytes": status_bytes("VmHWM"),
        "layers": [],
    }
    if arguments.profile:
        # A session of its own: it is slower, and needs memory.
        document["layers"] = runtime.profile(
            arguments.model, arguments.threads, inputs, arguments.profiled_runs, arguments.profile
        )
    return document


def measured(
    run: Callable[[], object], warmup: int, runs: int, min_seconds: float
) -> tuple[list[int], int | None]:
    """At least `runs` samples in nanoseconds that take at least `min_seconds`, and how many threads at least
    worked at a time."""
    for _ in range(warmup):
        run()
    started, before = time.perf_counter_ns(), thread_times()
    samples: list[int] = []
    left = min_seconds * 1e9
    while len(samples) < runs or left > 0:
        begin = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - begin)
        left -= samples[-1]
    after = thread_times()
    return samples, threads_at_a_time(before, after, time.perf_counter_ns() - started)


def marked(run: Callable[[], object], warmup: int) -> list[int]:
    """One sample between the marks of a profiler."""
    mark(WARM_CACHES)
    for _ in range(warmup):
        run()
    begin = time.perf_counter_ns()
    mark(START)
    run()
    mark(END)
    return [time.perf_counter_ns() - begin]


def mark(number: int) -> None:
    """A system call without effect."""
    with contextlib.suppress(OSError):
        os.close(number)


def thread_times() -> dict[str, int]:
    """Nanoseconds on a core, by thread; empty if the system does not tell."""
    found = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for thread in Path("/proc/self/task").iterdir():
            found[thread.name] = int((thread / "schedstat").read_text().split()[0])
    return found


def threads_at_a_time(before: dict[str, int], after: dict[str, int], elapsed: int) -> int | None:
    """How many threads at least worked in `elapsed` nanoseconds, on average; None if that cannot be told. A
    runtime may have several pools that take turns."""
    if elapsed < _LONG_ENOUGH_NS or not before or not after:
        return None
    worked = sum(nanoseconds - before.get(thread, 0) for thread, nanoseconds in after.items())
    return max(1, math.ceil((1 - _NOISE) * worked / elapsed - _NOISE))


def status_bytes(key: str) -> int:
    """A size from the process's status; 0 if it is unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    return 0
