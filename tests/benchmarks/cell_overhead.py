"""What the harness adds to a cell beyond the time of the engine's own processes, on a board over SSH.

    python tests/benchmarks/cell_overhead.py --board emulated
    python tests/benchmarks/cell_overhead.py --board ssh
    python tests/benchmarks/cell_overhead.py --board ssh --rounds 3

`emulated` is harness's own board, a container, where a cell is always one round; `ssh` an OpenSSH server on
loopback, which is measured as a real board is: sensors, governor, lock. On both the engine for a Raspberry
Pi 4 runs by QEMU. A sweep of a tiny network is run there, with a predictor that has seen none of its code
before. In one round cells end one after another; in several, policies take turns, and the cells of all
policies count together. Their time is that from the end of those before to their own, of which the engine's
processes took what the board's own clock says between their begin and end, read in the shell that starts
them: to hundredths of a second. On the emulated board the run under the profiler is such a process. The rest
is overhead: claims, files, connection, sensors, prediction, results. Exit status 1 where that is more than a
second a cell anywhere but at the first, or a cell failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import figures
from loopback import TARGET, own_cache, raspberry_pi
from tiny_sweep import write_tiny_sweep

from harness import console
from harness.boards.base import Completed
from harness.build.engine import build_engine
from harness.config.sweep_file import read_sweep
from harness.config.targets import load_target
from harness.images.availability import emulation_missing
from harness.store.store import FILE_NAME
from harness.sweep.fleet import Fleet
from harness.sweep.run import run_sweep

if TYPE_CHECKING:
    from harness.boards.base import Board

SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, calibration: {dataset: data, images: 4}}]
policies: [fp32, fp16, int8, {name: mixed, layers: {1: int8}}, {name: dynamic, default: int8, quantize: 1}]
targets: [pi4]
threads: [1, 2, 3]
protocol: {warmup: 1, runs: 5, min_seconds: 0.3, reruns: 0}
emulated: {images: 2}
"""
POLICIES, CELLS = 5, 15
# Around an engine's process; the times come after what it writes to standard error.
STAMPED = r"""
read -r begin rest </proc/uptime
"$@"
status=$?
read -r end rest </proc/uptime
echo "$begin $end" >&2
exit "$status"
"""
AT_MOST = {"maximum_seconds": 1.0, "not_done": 0}


class StampedFleet(Fleet):
    """Boards that note when each process of the engine ended, and how many seconds it took."""

    def __init__(self, boards_file: Path | None) -> None:
        super().__init__(boards_file)
        self.engines: list[tuple[float, float]] = []

    def open(self, board: str) -> Board:
        opened = super().open(board)
        # An emulated board's profiler uses it as well.
        setattr(opened, "run", self._stamped(opened.run))  # noqa: B010 - a method
        return opened

    def _stamped(self, run: Callable[..., Completed]) -> Callable[..., Completed]:
        def stamped(
            argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
        ) -> Completed:
            place = engine_place(argv)
            if place is None:
                return run(argv, timeout=timeout, environment=environment)
            words = [*argv[:place], "sh", "-c", STAMPED, "sh", *argv[place:]]
            result = run(words, timeout=timeout, environment=environment)
            *lines, stamps = result.stderr.splitlines()
            begin, end = map(float, stamps.split())
            self.engines.append((time.time(), end - begin))
            return Completed(status=result.status, stdout=result.stdout, stderr="\n".join(lines))

        return stamped


def engine_place(argv: Sequence[str]) -> int | None:
    """Where the words of an engine's process begin, with the emulator that it runs under, if any."""
    for place, (program, command) in enumerate(pairwise(argv)):
        if PurePosixPath(program).name == "mpe" and command in ("bench", "forward"):
            return 0 if PurePosixPath(argv[0]).name == "loader" else place
    return None


@contextlib.contextmanager
def boards_file(kind: str, folder: Path) -> Iterator[Path | None]:
    if kind == "emulated":
        if missing := emulation_missing(load_target(TARGET)):
            raise SystemExit("; ".join(missing))
        yield None
        return
    with raspberry_pi("desk", folder / "desk", work=folder / "work") as entry:
        path = folder / "boards.yaml"
        path.write_text(json.dumps({"boards": [entry]}))
        yield path


def run(folder: Path, kind: str, rounds: int) -> dict[str, object]:
    sweep = read_sweep(write_tiny_sweep(folder, SWEEP))
    sweep = replace(sweep, protocol=replace(sweep.protocol, rounds=rounds))
    results = folder / "results"
    with boards_file(kind, folder) as boards:
        fleet = StampedFleet(boards)
        run_sweep(sweep, results, fleet)
    with contextlib.closing(sqlite3.connect(results / FILE_NAME)) as database:
        ends = [end for (end,) in database.execute("SELECT finished FROM cells ORDER BY finished")]
        (done,) = database.execute("SELECT count(*) FROM cells WHERE status = 'done'").fetchone()
    together = 1 if rounds == 1 else POLICIES
    cells = []
    for begin, end in pairwise(ends[together - 1 :: together]):
        engine = sum(seconds for at, seconds in fleet.engines if begin < at <= end)
        cells.append(
            {
                "seconds": round((end - begin) / together, 3),
                "engine": round(engine / together, 3),
                "rest": round((end - begin - engine) / together, 3),
            }
        )
    rests = [cell["rest"] for cell in cells]
    return {
        "board": kind,
        "rounds": rounds,
        "cells": cells,
        "not_done": CELLS - done,
        "median_seconds": round(statistics.median(rests), 3),
        "maximum_seconds": max(rests),
        "seconds_a_round": round(max(rests) / rounds, 3),
    }


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--board", choices=("emulated", "ssh"), default="emulated", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, choices=range(1, 10), default=1, help="of a cell (%(default)s)")
    arguments = parser.parse_args()
    if arguments.board == "emulated" and arguments.rounds > 1:
        parser.error("a cell of an emulated board is one round")
    for target in ("host", TARGET):
        build_engine(load_target(target))
    console.set_quiet(True)
    with tempfile.TemporaryDirectory(prefix="harness-overhead-") as name:
        folder = Path(name)
        os.environ["HARNESS_CACHE"] = str(own_cache(folder / "cache", "costs"))
        found = run(folder, arguments.board, arguments.rounds)
    return figures.conclude(found, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
