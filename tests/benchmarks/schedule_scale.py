"""What scheduling costs: a sweep of many cells over many boards whose transport is a fake, all else real.

    python tests/benchmarks/schedule_scale.py --boards 200 --cells 20000

prints seconds of this process's time on processors, its peak memory and how the cells were spread, as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness import console
from harness.boards.board import Completed
from harness.boards.sensors import BoardPaths
from harness.configuration.schema import read_sweep
from harness.configuration.targets import Target, load_target
from harness.sweep.fleet import Fleet
from harness.sweep.runner import run_sweep
from harness.sweep.store import Store

if TYPE_CHECKING:
    from harness.boards.board import Board

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
POLICIES = ("fp32", "fp16")
TARGET = "pi4"
LAYER = {
    "index": 0, "type": "convolutional", "precision": "fp32", "executed": "fp32", "isa": "neon",
    "algorithm": "gemm", "ns": 1_000_000, "conversion_ns": 0, "bytes": 1_000_000,
}  # fmt: skip
BENCH = {
    "samples_ns": [1_000_000 + number for number in range(30)], "arena_bytes": 1, "weight_bytes": 1,
    "peak_rss_bytes": 1, "isa": "neon", "instructions": None,
    "layers": [LAYER | {"index": index} for index in range(14)],
}  # fmt: skip
PRINTED = json.dumps(BENCH)


class FakeBoard:
    """Answers at once what an engine might print."""

    emulated = False

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.target = target
        self.sensors = BoardPaths()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        return {name: str(PurePosixPath("/board") / path.name) for name, path in files.items()}

    def run(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        return Completed(status=0, stdout=PRINTED, stderr="")

    def profile(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> Completed | None:
        return None

    def count_instructions(
        self, argv: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None
    ) -> tuple[Completed, int] | None:
        return None

    def scratch(self, name: str) -> str:
        return f"/there/{name}"

    def fetch(self, remote: str, local: Path) -> None:
        raise NotImplementedError


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
        return FakeBoard(board, self.target)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--boards", type=int, default=200)
    parser.add_argument("--cells", type=int, default=20_000)
    arguments = parser.parse_args()
    console.set_quiet(True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sweep = read_sweep(write_sweep(folder, arguments.cells))
        started, used = time.monotonic(), time.process_time()
        number = run_sweep(sweep, folder / "results", FakeFleet(arguments.boards))
        seconds, processor = time.monotonic() - started, time.process_time() - used
        with Store(folder / "results") as store:
            places = store.places(number)
            outcomes = [store.outcome("cells", place.key) for place in places]
    spread = Counter(str(outcome.result["board"]) for outcome in outcomes if outcome)
    json.dump(
        {
            "cells": len(places),
            "done": sum(outcome is not None and outcome.status == "done" for outcome in outcomes),
            "boards": len(spread),
            "most_and_least_cells_of_a_board": [max(spread.values()), min(spread.values())],
            "seconds": round(seconds, 1),
            "processor_seconds": round(processor, 1),
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        },
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
