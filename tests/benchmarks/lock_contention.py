"""Two harnesses contend for two boards: no program of theirs is measured while another one's runs there.

    python tests/benchmarks/lock_contention.py --minutes 10

The boards are OpenSSH servers on loopback, under which the engine for a Raspberry Pi 4 runs by QEMU. Each
harness runs a sweep over both again and again, with results and a cache of its own, as on another machine:
nothing but the lock on a board keeps them apart. Now and then one of them is killed (SIGKILL) while a program
of its is measured, and started again.

A shell in the place of the boards' `sh` writes down when every measured program begins and when it has ended
with all that it started; the kernel tells that by a lock on a file that they all hold, also of those that
were killed. The times are taken before the first process starts and after the last is gone, so that gaps come
out smaller than they are. Exit status 1 where two programs overlap, or a harness measured nothing on a board.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path

import figures
from loopback import TARGET, own_cache, raspberry_pi
from tiny_sweep import write_tiny_sweep

from harness.build.engine import build_engine
from harness.config.targets import load_target
from harness.store.store import FILE_NAME, Store

HARNESSES = ("first", "second")
BOARDS = ("desk", "shelf")
SECONDS_BETWEEN_KILLS = (10.0, 30.0)
SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights}]
policies: [fp32, fp16]
targets: [pi4]
threads: [1, 2]
options: [{}, {algorithm: gemm}]
protocol: {warmup: 1, runs: 5, min_seconds: 0.3}
emulated: {images: 0}
"""
# Programs inherit the open file, and with it the lock; `flock` waits until the last of them is gone. None
# begins before that waits, out of reach of what kills them.
RECORDING_SHELL = r"""#!/bin/sh
before=
measured=
for word; do
  case $before/$word in */mpe/bench) measured=yes ;; esac
  before=$word
done
if [ -n "$measured" ] && [ -z "$RECORDED" ]; then
  export RECORDED=yes
  record=$RECORDS/$HARNESS-$$-$(date +%s%N)
  exec 9>"$record"
  flock 9
  setsid /bin/sh -c 'flock "$1" date +%s%N >"$1.end"' sh "$record" 9>&- </dev/null >/dev/null 2>&1 &
  until [ -e "$record.end" ]; do sleep 0.01; done
fi
exec /bin/sh "$@"
"""
AT_MOST = {"overlaps": 0, "without_end": 0, "idle": 0, "failed_runs": 0}


@dataclass(frozen=True, kw_only=True)
class Program:
    """One that was measured on a board; times in seconds since 1970."""

    harness: str
    begin: float
    end: float | None  # None: it still runs


@dataclass
class Harness:
    """`harness run` again and again until all is over; `process` is the present one."""

    name: str
    words: Sequence[str]
    cache: Path
    over: threading.Event
    process: subprocess.Popen[str] | None = None
    failures: list[str] = field(default_factory=list)

    def work(self) -> None:
        environment = os.environ | {"HARNESS_CACHE": str(self.cache)}
        while not self.over.is_set():
            self.process = process = subprocess.Popen(
                self.words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
            )
            _, errors = process.communicate()
            if process.returncode not in (0, -signal.SIGKILL) and not self.over.is_set():
                self.failures.append(errors[-2000:])

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


def programs(records: Path) -> list[Program]:
    """The measurements on a board, in the order of their begin."""
    found = []
    for path in records.iterdir():
        if path.suffix != ".end":
            harness, _, begin = path.name.split("-")
            with contextlib.suppress(FileNotFoundError):  # killed before it began
                end = path.with_name(f"{path.name}.end").read_text().strip()
                found.append(
                    Program(harness=harness, begin=int(begin) / 1e9, end=int(end) / 1e9 if end else None)
                )
    return sorted(found, key=lambda program: program.begin)


def finished_cells(results: Path) -> Counter[str]:
    """How often a result was written, by board."""
    with contextlib.closing(sqlite3.connect(results / FILE_NAME)) as database:
        return Counter(dict(database.execute("SELECT board, count(*) FROM ends GROUP BY board").fetchall()))


def note_ends(results: Path) -> None:
    """Has the database of results note every time that a cell's is written."""
    Store(results).close()
    with contextlib.closing(sqlite3.connect(results / FILE_NAME)) as database:
        database.executescript(
            "CREATE TABLE ends (board TEXT NOT NULL);"
            "CREATE TRIGGER noted AFTER INSERT ON cells WHEN NEW.status = 'done'"
            " BEGIN INSERT INTO ends VALUES (json_extract(NEW.result, '$.board')); END;"
        )


@contextlib.contextmanager
def contending(folder: Path, over: threading.Event) -> Iterator[list[Harness]]:
    """Both harnesses at work on both boards."""
    shell = folder / "bin" / "sh"
    shell.parent.mkdir()
    shell.write_text(RECORDING_SHELL)
    shell.chmod(0o755)
    sweep = write_tiny_sweep(folder, SWEEP)
    harnesses = []
    with contextlib.ExitStack() as stack:
        for name in HARNESSES:
            entries = []
            for board in BOARDS:
                (folder / "records" / board).mkdir(parents=True, exist_ok=True)
                variables = {
                    "PATH": f"{shell.parent}:{os.environ['PATH']}",
                    "HARNESS": name,
                    "RECORDS": str(folder / "records" / board),
                }
                # A server for each harness tells them apart; the board is one, as its working folder is.
                entry = raspberry_pi(
                    board, folder / name / board, work=folder / "work" / board, environment=variables
                )
                entries.append(stack.enter_context(entry))
            boards = folder / name / "boards.yaml"
            boards.write_text(json.dumps({"boards": entries}))
            note_ends(folder / name / "results")
            words = [sys.executable, "-m", "harness", "run", "--fresh", "--matrix", str(sweep)]
            words += ["--boards", str(boards), "--results", str(folder / name / "results")]
            cache = own_cache(folder / name / "cache", "locks")
            harnesses.append(Harness(name=name, words=words, cache=cache, over=over))
        threads = [threading.Thread(target=harness.work) for harness in harnesses]
        for thread in threads:
            thread.start()
        try:
            yield harnesses
        finally:
            over.set()
            for harness, thread in zip(harnesses, threads, strict=True):
                harness.kill()
                thread.join()


def kill_one(harnesses: Sequence[Harness], folder: Path, chance: random.Random) -> tuple[str, float] | None:
    """Kills a harness one of whose programs runs on a board: that board, and when; None where none runs."""
    running = [
        (board, harness)
        for board, harness in product(BOARDS, harnesses)
        for program in programs(folder / "records" / board)[-1:]
        if program.harness == harness.name and program.end is None
    ]
    if not running:
        return None
    board, harness = chance.choice(running)
    harness.kill()
    return board, time.time()


def run(folder: Path, minutes: float, seed: int) -> dict[str, object]:
    chance, over = random.Random(seed), threading.Event()
    kills: list[tuple[str, float]] = []
    deadline = time.monotonic() + 60 * minutes
    with contending(folder, over) as harnesses:
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, chance.uniform(*SECONDS_BETWEEN_KILLS)))
            while time.monotonic() < deadline:
                if kill := kill_one(harnesses, folder, chance):
                    kills.append(kill)
                    break
                time.sleep(0.05)
    time.sleep(5.0)  # the boards end the last sessions
    measured = {board: programs(folder / "records" / board) for board in BOARDS}
    cells = {name: finished_cells(folder / name / "results") for name in HARNESSES}
    for failure in (failure for harness in harnesses for failure in harness.failures):
        print(failure, file=sys.stderr)
    return {
        "minutes": minutes,
        "cells": {name: {board: cells[name][board] for board in BOARDS} for name in HARNESSES},
        "idle": sum(not cells[name][board] for name, board in product(HARNESSES, BOARDS)),
        "programs": sum(map(len, measured.values())),
        "killed": len(kills),
        "longest_until_a_killed_ones_board_was_measured_again_seconds": max(
            (_until_next(measured[board], killed) for board, killed in kills), default=0.0
        ),
        "changes_of_hands": sum(len(list(_changes(found))) for found in measured.values()),
        "smallest_gap_seconds": _smallest(gap for found in measured.values() for _, gap in _gaps(found)),
        "smallest_gap_between_harnesses_seconds": _smallest(
            gap for found in measured.values() for gap in _changes(found)
        ),
        "overlaps": sum(gap < 0 for found in measured.values() for _, gap in _gaps(found)),
        "without_end": sum(program.end is None for found in measured.values() for program in found),
        "failed_runs": sum(len(harness.failures) for harness in harnesses),
    }


def _gaps(found: Sequence[Program]) -> Iterator[tuple[bool, float]]:
    """Between each program and the latest end of those before it; and whether the harness is another."""
    latest = 0.0
    for before, program in pairwise(found):
        latest = max(latest, time.time() if before.end is None else before.end)
        yield before.harness != program.harness, program.begin - latest


def _changes(found: Sequence[Program]) -> Iterator[float]:
    return (gap for other, gap in _gaps(found) if other)


def _smallest(gaps: Iterator[float]) -> float | None:
    return min((round(gap, 4) for gap in gaps), default=None)


def _until_next(found: Sequence[Program], moment: float) -> float:
    return next((round(program.begin - moment, 1) for program in found if program.begin > moment), 0.0)


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (%(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed when (%(default)s)")
    arguments = parser.parse_args()
    for program in ("flock", "setsid"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed: apt-get install util-linux")
    for target in ("host", TARGET):  # before the clock runs; both harnesses find them
        build_engine(load_target(target))
    with tempfile.TemporaryDirectory(prefix="harness-contention-") as name:
        found = run(Path(name), arguments.minutes, arguments.seed)
    return figures.conclude(found, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
