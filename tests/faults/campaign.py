"""A seeded campaign of faults over sweeps of 60 cells on four boards.

    python tests/faults/campaign.py --seed 1 --faults 300 --json

Boards are sshd processes in namespaces of their own behind proxies (board.py, proxy.py). Sweeps of the same
60 cells follow each other, each into a results folder of its own, until enough faults have happened, of each
kind at least one (fault_kinds.py); a sweep that is killed, or stops for want of disk, is run again until it
has ended. Then every cell must have ended once, with the digest it has without faults, or have failed with
the cause of a fault that was done (judgement.py), and nothing may be left behind (leavings.py). Prints a
table, or JSON; exit status 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from board import Board, build_libraries
from fault_kinds import KINDS, Faults, Kind
from judgement import Done, Tally, note_ends, noted_ends
from leavings import on_boards, on_host
from tiny_sweep import write_tiny_sweep

from harness.build.engine import build_engine
from harness.config.targets import load_target
from harness.resources import cache_directory

BOARDS = 4
CELLS = 60
RETRY = [0.2, 0.5, 1, 1.5, 2, 3, 4, 5]  # seconds between attempts to reach a board
HOST_DISK = "64m"
SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, calibration: {dataset: data, images: 4}}]
policies: [fp32, fp16, int8, {name: mixed, layers: {1: int8}}, {name: dynamic, default: int8, quantize: 1}]
targets: [pi4]
threads: [1, 2]
options:
  [{}, {algorithm: gemm}, {algorithm: reference}, {prefer: memory}, {isa: reference}, {algorithm: winograd4}]
protocol: {warmup: 1, runs: 5, min_seconds: 0.6, timeout: 6}
emulated: {images: 2}
"""


class Campaign:
    """One run of faults; `seed` decides which, when and where."""

    def __init__(self, folder: Path, seed: int, faults: int, verbose: bool) -> None:
        # Not through the links below: Zig finds what it has compiled by the paths of the files.
        build_engine(load_target("pi4"))
        self.folder = folder
        self.chance = random.Random(seed)
        self.wanted = faults
        self.verbose = verbose
        self.tally = Tally()
        self.done: list[Done] = []
        # All that the orchestrator writes, except for the engines that it builds: these are large, and made
        # before the first fault.
        self.disk = folder / "host disk"
        self.sweep = write_tiny_sweep(folder, SWEEP)
        libraries = build_libraries(folder)
        self.boards = [
            Board(f"board {number} 'ü'", folder / f"board{number}", libraries) for number in range(BOARDS)
        ]
        self.boards_file = folder / "boards.yaml"
        entries = [board.entry() | {"retry": RETRY} for board in self.boards]
        self.boards_file.write_text(json.dumps({"boards": entries}))
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={HOST_DISK}", "tmpfs", self.disk], check=True)
        for name in ("results", "tmp", "cache"):
            (self.disk / name).mkdir()
        for name in ("build", "zig"):
            built = cache_directory().resolve() / name
            built.mkdir(parents=True, exist_ok=True)
            (self.disk / "cache" / name).symlink_to(built)
        self._started = time.monotonic()
        self._over = threading.Event()
        self.faults = Faults(self.chance, self.disk, self._over.is_set)

    def close(self) -> None:
        for board in self.boards:
            board.close()
        subprocess.run(["umount", "--lazy", self.disk], check=False)

    def run(self) -> Tally:
        self.expected = {name: row["digest"] for name, row in self._undisturbed().items()}
        folders = []
        while self._wanting():
            self.tally.sweeps += 1
            folders.append(self.disk / "results" / f"sweep {self.tally.sweeps}")
            self._disturbed(folders[-1])
        self._say("what is left behind?")
        self.tally.leave(on_boards(self.boards, reopened=False) or self._left_to_next_session())
        self.tally.leave(on_host(self.disk, folders))
        return self.tally

    def _left_to_next_session(self) -> list[str]:
        words = ["boards", "probe", "--boards", str(self.boards_file)]
        process = self._start(words)
        process.communicate()
        if process.returncode not in (0, 4):  # 4: they are not as a Raspberry Pi is
            raise RuntimeError("boards cannot be reached without faults")
        return on_boards(self.boards, reopened=True)

    def _wanting(self) -> bool:
        return sum(self.tally.faults.values()) < self.wanted or bool(self.tally.missing_kinds())

    def _undisturbed(self) -> dict[str, Any]:
        self._say("a sweep without faults")
        process = self._sweep(self.disk / "results" / "undisturbed")
        printed, errors = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"the sweep fails without faults: {errors[-3000:]}")
        rows = _by_name(json.loads(printed))
        if len(rows) != CELLS:
            raise RuntimeError(f"the sweep has {len(rows)} cells instead of {CELLS}")
        return rows

    def _sweep(self, folder: Path) -> subprocess.Popen[str]:
        words = ["run", "--json", "--matrix", str(self.sweep), "--boards", str(self.boards_file)]
        return self._start([*words, "--results", str(folder)])

    def _start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        own = {"HARNESS_CACHE": str(self.disk / "cache"), "TMPDIR": str(self.disk / "tmp")}
        return subprocess.Popen(
            [sys.executable, "-m", "harness", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **own},
        )

    def _disturbed(self, folder: Path) -> None:
        """A sweep from its begin to its end, with faults."""
        note_ends(folder)
        self._over.clear()
        with ThreadPoolExecutor(1) as beside:
            injecting = beside.submit(self._inject)
            try:
                printed = self._until_ended(folder)
            finally:
                self._over.set()
        injecting.result()
        self.tally.judge_rows(_by_name(json.loads(printed)), self.expected)
        self.tally.judge_ends(noted_ends(folder), self.done)

    def _until_ended(self, folder: Path) -> str:
        """The output of a sweep that ends; it is run again if it was killed or had no disk."""
        while True:
            self.faults.orchestrator = process = self._sweep(folder)
            printed, errors = process.communicate()
            if process.returncode in (0, 6):
                return printed
            self.tally.restarts += 1
            if process.returncode != -signal.SIGKILL:
                wrong = self.tally.wrong_cause
                self.tally.judge_cause(errors[errors.rfind("harness: error") :], time.time(), self.done)
                if self.tally.wrong_cause > wrong:
                    raise RuntimeError(f"harness ended with {process.returncode}: {errors[-3000:]}")
            time.sleep(0.2)

    def _inject(self) -> None:
        while not self._over.wait(self.chance.uniform(0.1, 0.8)):
            if self._wanting():
                # Each once, and then by weight.
                kinds = self.tally.missing_kinds() or KINDS
                (kind,) = self.chance.choices(kinds, [kind.weight for kind in kinds])
                self._do(kind, self.chance.choice(self.boards))

    def _do(self, kind: Kind, board: Board) -> None:
        done = Done(kind=kind, board="" if kind.on_host else board.name, begun=time.time())
        self.done.append(done)
        happened = self.faults.do(kind, board)
        done.ended = time.time()
        if happened:
            self.tally.faults[kind.name] += 1
            self._say(f"{sum(self.tally.faults.values())}: {kind.name} {board.name}")
        elif not kind.partly:
            self.done.remove(done)

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"{time.monotonic() - self._started:4.0f} s: {text}", file=sys.stderr, flush=True)


def _by_name(report: dict[str, Any]) -> dict[str, Any]:
    keys = ("model", "policy", "target", "threads", "options")
    return {" ".join(str(row[key]) for key in keys): row for row in report["cells"]}


@contextlib.contextmanager
def campaign(seed: int, faults: int, *, verbose: bool = False) -> Iterator[Campaign]:
    """A campaign with boards of its own, all of which end with it."""
    if os.geteuid() != 0:
        raise SystemExit("the campaign needs root: its boards have namespaces and disks of their own")
    with tempfile.TemporaryDirectory(prefix="harness-faults-") as name:
        found = Campaign(Path(name), seed, faults, verbose)
        try:
            yield found
        finally:
            found.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the boards' disks have to be taken away
    with campaign(arguments.seed, arguments.faults, verbose=True) as running:
        tally = running.run()
    if arguments.json:
        print(json.dumps(tally.as_json() | {"seed": arguments.seed}, indent=2))
    else:
        from rich.console import Console

        Console().print(tally.table())
        for line in tally.found:
            print(line)
    return 0 if tally.holds else 1


if __name__ == "__main__":
    sys.exit(main())
