"""How long does `--help` take? Medians of each command, in fresh processes.

    python tests/benchmarks/help_time.py [RUNS]

All run on one core. Exit status 1 if a command takes more processor time than the limit. On an idle machine
that is the time that passes; on a busy one more time passes.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time

from harness.cli import COMMANDS

LIMIT_MS = 150  # beyond this a terminal feels slow


def milliseconds(*words: str) -> tuple[float, float]:
    """The time that passes and the processor time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "harness", *words, "--help"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    passed = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return 1e3 * passed, 1e3 * used


def main(runs: int) -> int:
    """Returns 1 if the median of any command is over the limit."""
    lines: list[list[str]] = [[], *([command] for command in COMMANDS)]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # its processes inherit it
    milliseconds()  # writes the bytecode
    # Interleaved, so that other load of the machine meets all commands alike.
    rounds = [[milliseconds(*words) for words in lines] for _ in range(runs)]
    slow = False
    for words, times in zip(lines, zip(*rounds, strict=True), strict=True):
        passed, used = (statistics.median(column) for column in zip(*times, strict=True))
        slow |= used > LIMIT_MS
        print(f"{' '.join(['harness', *words, '--help']):32} {passed:6.0f} ms, {used:.0f} ms of a processor")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 7))
