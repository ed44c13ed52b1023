"""What scheduling costs: a sweep of many cells over many boards whose transport is a fake, all else real.

    python tests/benchmarks/schedule_scale.py --boards 200 --cells 20000

prints seconds of this process's time on processors, its peak memory and how the cells were spread. Store,
schedule, materials and the sweep's threads are those of every sweep; a board answers at once what an engine
might print. Exit status 1 where it took more than 60 s of processors or 500 MB, or a cell was not measured.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))

import figures
from fake_boards import FakeBoard
from networks import printed_bench

from harness import console
from harness.boards.base import MOST_OUTPUT, Completed
from harness.config.sweep_file import read_sweep
from harness.config.targets import Target, load_target
from harness.store.store import Store
from harness.sweep.fleet import Fleet
from harness.sweep.run import run_sweep

if TYPE_CHECKING:
    from harness.boards.base import Board

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
POLICIES = ("fp32", "fp16")
TARGET = "pi4"
SAMPLES = [1_000_000 + number for number in range(10)]
STATE = "".join(f"core\t{core}\t1800000\t1800000\t1800000\tperformance\t\n" for core in range(4))
STATE += "zone\t48312\tcpu-thermal\t\nthrottled\t0x0\t\nload\t0.25 0.50 0.75 1/123 4567\t\nend\t\n"
# The board's output, by a text in the script that it runs.
ANSWERS = {
    "meminfo": STATE,
    "scaling_governor": "core performance\n" * 4,
    'sh "$script"': "",
    "cat": "12.50 1800000,1800000,1800000,1800000 48312 0x0 - -\n" * 4,
}
AT_MOST = {"not_done": 0, "processor_seconds": 60, "peak_rss_mb": 500}


@cache
def _answer(script: str) -> str:
    return next(ANSWERS[part] for part in ANSWERS if part in script)


@cache
def _bench(cfg: Path) -> str:
    return printed_bench(cfg.read_text(), SAMPLES)


class EngineBoard(FakeBoard):
    """Answers at once with plausible output of an engine or of the scripts that read a board's sensors."""

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        return {name: str(path) for name, path in files.items()}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> Completed:
        printed = _bench(Path(argv[argv.index("--cfg") + 1])) if "bench" in argv else _answer(argv[2])
        return Completed(status=0, stdout=printed, stderr="")


class FakeFleet(Fleet):
    """So many boards of one target, all fakes."""

    def __init__(self, boards: int) -> None:
        super().__init__()
        self.names = tuple(f"board {number}" for number in range(boards))
        self.target = load_target(TARGET)

    def is_emulated(self, target: Target) -> bool:
        return False

    def boards(self, target: Target) -> tuple[str, ...]:
        return self.names

    def open(self, board: str) -> Board:
        return EngineBoard(board, self.target)


def write_sweep(folder: Path, cells: int) -> Path:
    """Cells that differ in policy, threads and an option that the engine would take as it is."""
    options = math.ceil(cells / len(POLICIES) / 10)
    path = folder / "scale.yaml"
    path.write_text(
        json.dumps(
            {
                "models": [
                    {
                        "name": "digits",
                        "cfg": str(DIGITS / "digits.cfg"),
                        "weights": str(DIGITS / "digits.weights"),
                    }
                ],
                "policies": list(POLICIES),
                "targets": [TARGET],
                "threads": list(range(1, 11)),
                "options": [{"bn_epsilon": 1e-5 + 1e-9 * number} for number in range(options)],
                "emulated": {"images": 0},
            }
        )
    )
    return path


def _peak_rss_mb() -> int:
    """This program's own peak: getrusage's begins with that of whoever started it."""
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(peak) // 1024


def main() -> int:
    parser = figures.parser(__doc__)
    parser.add_argument("--boards", type=int, default=200, help="how many boards (%(default)s)")
    parser.add_argument("--cells", type=int, default=20_000, help="about how many cells (%(default)s)")
    arguments = parser.parse_args()
    console.set_quiet(True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sweep = read_sweep(write_sweep(folder, arguments.cells))
        started, used = time.monotonic(), time.process_time()
        number = run_sweep(sweep, folder / "results", FakeFleet(arguments.boards)).run
        seconds, processor = time.monotonic() - started, time.process_time() - used
        with Store(folder / "results") as store:
            places = store.planned(number)
            outcomes = [store.cell(place.key) for place in places]
    done = [outcome for outcome in outcomes if outcome is not None and outcome.status == "done"]
    spread = Counter(str(outcome.result.board) for outcome in done)
    found = {
        "boards": len(spread),
        "cells": len(places),
        "not_done": len(places) - len(done),
        "most_cells_of_a_board": max(spread.values(), default=0),
        "least_cells_of_a_board": min(spread.values(), default=0),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "peak_rss_mb": _peak_rss_mb(),
    }
    return figures.conclude(found, AT_MOST, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
