"""A seeded campaign of faults over sweeps of 60 cells on four boards.

    python tests/faults/campaign.py --seed 1 --faults 300 --json

Boards are sshd processes in namespaces of their own behind proxies (board.py, proxy.py). Sweeps of the same
60 cells follow each other, each into a results folder of its own, until enough faults have happened; a sweep
that is killed, or stops for want of disk, is run again until it has ended. Then every cell must have ended
once, with the digest it has without faults, or have failed with the fault's cause, and nothing may be left
behind. Exit status 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from board import Board
from proxy import Proxy
from tiny_sweep import write_tiny_sweep

from harness.sweep.store import FILE_NAME, Store

BOARDS = 4
CELLS = 60
RETRY = [0.2, 0.5, 1, 1.5, 2, 3, 4, 5]  # seconds between attempts to reach a board
SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, calibration: {dataset: data, images: 4}}]
policies: [fp32, fp16, int8, {name: mixed, layers: {1: int8}}, {name: dynamic, default: int8, quantize: 1}]
targets: [pi4]
threads: [1, 2]
options:
  [{}, {algorithm: gemm}, {algorithm: reference}, {prefer: memory}, {isa: reference}, {algorithm: im2col}]
protocol: {warmup: 1, runs: 5, min_seconds: 0.6, timeout: 6}
emulated: {images: 2}
"""
# What an error must say to be a fault's true cause.
CAUSES = (
    "connection", "lost", "no answer", "connecting", "host key", "did not end within", "SIGKILL",
    "memory", "no space", "No space", "room", "damaged", "thread", "busy", "refused", "unable to",
)  # fmt: skip


@dataclass
class Tally:
    """What the campaign's table shows."""

    faults: Counter[str] = field(default_factory=Counter)
    cells: int = 0
    done: int = 0
    failed: int = 0
    lost: int = 0
    twice: int = 0
    wrong_digest: int = 0
    wrong_cause: int = 0
    left_behind: int = 0
    passes: int = 0
    restarts: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)  # what was left behind, or said a wrong cause

    @property
    def holds(self) -> bool:
        return not (self.lost or self.twice or self.wrong_digest or self.wrong_cause or self.left_behind)


class Campaign:
    """One run of faults; `chance` decides which, when and where."""

    def __init__(self, folder: Path, seed: int, faults: int, verbose: bool) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.wanted = faults
        self.verbose = verbose
        self.tally = Tally()
        self.results = folder / "results disk"
        self.boards = [Board(f"board {number} 'ü'", folder / f"board{number}") for number in range(BOARDS)]
        self.sweep = write_tiny_sweep(folder, SWEEP)
        self.boards_file = folder / "boards.yaml"
        entries = [board.entry() | {"retry": RETRY} for board in self.boards]
        self.boards_file.write_text(json.dumps({"boards": entries}))
        self.results.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", self.results], check=True)
        self.expected: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        for board in self.boards:
            board.close()
        subprocess.run(["umount", "--lazy", self.results], check=False)

    # Faults: each does one thing to one board or to the orchestrator, and returns whether it happened.

    def cut_upload(self, board: Board) -> bool:
        board.forget_files()
        board.proxy.cut()
        board.proxy.cut_after(Proxy.UPSTREAM, self.chance.randrange(20_000, 1_500_000))
        return True

    def cut_run(self, board: Board) -> bool:
        if not board.engines():
            return False
        board.proxy.cut()
        return True

    def cut_download(self, board: Board) -> bool:
        board.proxy.cut_after(Proxy.DOWNSTREAM, self.chance.randrange(200, 20_000))
        return True

    def corrupt_connection(self, board: Board) -> bool:
        board.proxy.corrupt(self.chance.choice((Proxy.UPSTREAM, Proxy.DOWNSTREAM)))
        return True

    def stall_connection(self, board: Board) -> bool:
        board.proxy.stall(self.chance.uniform(0.3, 2.0))
        return True

    def reboot(self, board: Board) -> bool:
        board.reboot(self.chance.uniform(0.1, 1.5))
        return True

    def kill_engine(self, board: Board) -> bool:
        return board.signal_engine(signal.SIGKILL)

    def hang_engine(self, board: Board) -> bool:
        return board.signal_engine(signal.SIGSTOP)

    def out_of_memory(self, board: Board) -> bool:
        board.limit_memory(32 << 20)
        time.sleep(1.0)
        board.limit_memory(0)
        return True

    def fill_board_disk(self, board: Board) -> bool:
        board.fill_disk()
        board.forget_files()
        board.proxy.cut()
        time.sleep(1.0)
        board.free_disk()
        return True

    def wrong_hash(self, board: Board) -> bool:
        if not board.damage_file(self.chance):
            return False
        board.proxy.cut()
        return True

    def clock_jump(self, board: Board) -> bool:
        board.shift_clock(self.chance.choice((-1, 1)) * 86400.0 * self.chance.randint(1, 400))
        board.proxy.cut()
        return True

    def change_host_key(self, board: Board) -> bool:
        board.change_host_key(1.0)
        return True

    def fill_host_disk(self, _board: Board) -> bool:
        filler = self.results / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        time.sleep(self.chance.uniform(0.2, 1.0))
        filler.unlink()
        return True

    def kill_orchestrator(self, _board: Board) -> bool:
        process = self._process
        if process is None or process.poll() is not None:
            return False
        process.kill()
        return True

    # Quick ones come more often, so that a sweep gets on.
    WEIGHTS = (
        (cut_upload, 3), (cut_run, 5), (cut_download, 5), (corrupt_connection, 4), (stall_connection, 4),
        (reboot, 4), (kill_engine, 3), (hang_engine, 2), (out_of_memory, 2), (fill_board_disk, 2),
        (wrong_hash, 3), (clock_jump, 3), (change_host_key, 1), (fill_host_disk, 1), (kill_orchestrator, 2),
    )  # fmt: skip

    def run(self) -> Tally:
        self.expected = {name: row["digest"] for name, row in self._undisturbed().items()}
        while sum(self.tally.faults.values()) < self.wanted:
            self._pass()
        self._look_for_leavings()
        return self.tally

    def _undisturbed(self) -> dict[str, Any]:
        self._say("a sweep without faults")
        folder = self.results / "undisturbed"
        process = self._start(folder)
        printed, errors = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"the sweep fails without faults: {errors[-3000:]}")
        rows = _by_name(json.loads(printed))
        if len(rows) != CELLS:
            raise RuntimeError(f"the sweep has {len(rows)} cells instead of {CELLS}")
        return rows

    def _start(self, folder: Path) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "harness", "run", "--json", "--matrix", str(self.sweep)]
        words += ["--boards", str(self.boards_file), "--results", str(folder)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _pass(self) -> None:
        """A sweep from its begin to its end, with faults."""
        self.tally.passes += 1
        folder = self.results / f"pass {self.tally.passes}"
        _note_ends(folder)
        over = threading.Event()
        injector = threading.Thread(target=self._inject, args=(over,))
        injector.start()
        try:
            while True:
                self._process = process = self._start(folder)
                printed, errors = process.communicate()
                if process.returncode in (0, 6):
                    break
                self.tally.restarts += 1
                killed = process.returncode == -signal.SIGKILL
                if not killed and not any(word in errors for word in ("full", "space", "I/O")):
                    raise RuntimeError(f"harness ended with {process.returncode}: {errors[-3000:]}")
                time.sleep(0.2)
        finally:
            over.set()
            injector.join()
        self._judge(folder, _by_name(json.loads(printed)))

    def _inject(self, over: threading.Event) -> None:
        faults: list[Callable[[Campaign, Board], bool]] = [kind for kind, _ in self.WEIGHTS]
        weights = [weight for _, weight in self.WEIGHTS]
        while not over.wait(self.chance.uniform(0.2, 1.2)):
            if sum(self.tally.faults.values()) >= self.wanted:
                continue
            (kind,) = self.chance.choices(faults, weights)
            board = self.chance.choice(self.boards)
            if kind(self, board):
                self.tally.faults[kind.__name__] += 1
                self._say(f"{sum(self.tally.faults.values())}: {kind.__name__} {board.name}")

    def _judge(self, folder: Path, rows: dict[str, Any]) -> None:
        tally = self.tally
        tally.cells += CELLS
        tally.lost += CELLS - len(rows)
        for name, row in rows.items():
            if row["status"] == "done":
                tally.done += 1
                if row["digest"] != self.expected[name]:
                    tally.wrong_digest += 1
            elif row["status"] == "failed":
                tally.failed += 1
                cause = str(row["error"]).splitlines()[-1][:100]
                tally.causes[cause.split(":")[-1].strip()] += 1
                if not any(word in str(row["error"]) for word in CAUSES):
                    tally.wrong_cause += 1
                    tally.found.append(f"{name}: {row['error']}")
            else:
                tally.lost += 1
        with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
            (twice,) = database.execute("SELECT count(*) - count(DISTINCT cell) FROM ends").fetchone()
            (claims,) = database.execute("SELECT count(*) FROM claims").fetchone()
        tally.twice += twice
        leavings = [str(path) for path in (folder / "owners").iterdir()] + ["a claim"] * claims
        tally.left_behind += len(leavings)
        tally.found += leavings

    def _look_for_leavings(self) -> None:
        """What harness left on the boards, after a last sweep without faults."""
        self._start(self.results / "last").communicate()
        deadline = time.monotonic() + 15
        while any(board.unexpected() for board in self.boards) and time.monotonic() < deadline:
            time.sleep(0.2)
        for board in self.boards:
            found = [f"{board.name}: process {number} {_words(number)}" for number in board.unexpected()]
            # Of the working folder's parts (harness/boards/session.py) objects alone outlive a session.
            parts = [board.work / part for part in ("partial", "lock", "sessions", "ended")]
            found += [f"{board.name}: {path}" for part in parts for path in part.rglob("*")]
            self.tally.left_behind += len(found)
            self.tally.found += found

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text, file=sys.stderr, flush=True)


def _note_ends(folder: Path) -> None:
    """Has the results' own database note every time that a cell's result is written."""
    Store(folder).close()
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
        database.executescript(
            "CREATE TABLE ends (cell TEXT NOT NULL);"
            "CREATE TRIGGER noted AFTER INSERT ON cells WHEN NEW.status = 'done'"
            " BEGIN INSERT INTO ends VALUES (NEW.key); END;"
        )


def _by_name(report: dict[str, Any]) -> dict[str, Any]:
    keys = ("model", "policy", "target", "threads", "options")
    return {" ".join(str(row[key]) for key in keys): row for row in report["cells"]}


def _words(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return "(gone)"


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
    with campaign(arguments.seed, arguments.faults, verbose=True) as running:
        tally = running.run()
    table = vars(tally) | {"faults": sum(tally.faults.values()), "kinds": dict(tally.faults)}
    if arguments.json:
        print(json.dumps(table | {"causes": dict(tally.causes), "seed": arguments.seed}, indent=2))
    else:
        for key, value in table.items():
            print(f"{key:14} {value}")
    return 0 if tally.holds else 1


if __name__ == "__main__":
    sys.exit(main())
