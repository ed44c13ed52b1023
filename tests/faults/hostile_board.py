"""Two boards that lie: pairs of sweeps of 12 cells, until each lie was told.

    python tests/faults/hostile_board.py --seed 1 --json

Boards are sshd processes in namespaces of their own (board.py), whose shell puts a liar in the place of the
engine (hostile_modes.py), or lies itself (hostile_shells.py). First two sweeps at a time share both boards,
on which the engine lies about 8 of the 12 cells of each: the others have to be done, and each of these has
to fail with the cause of its lie. Then the shell of one board lies, in each sweep in another way: the other
board has to do all cells, and the harness has to name the cause. Last, sweeps are interrupted at random
moments, every other one while another program has its results locked. Prints a table, or JSON; exit status
1 where a cell did not end so, a harness took 300 MB or more, or did not end within 5 s of the signal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from board import build_libraries
from hostile_modes import MODES, Mode
from hostile_shells import LIE_OF_SERVER, LIES_OF_SHELLS, HostileBoard, Lie, flooding_server
from tiny_sweep import write_tiny_sweep

from harness.store.store import FILE_NAME

if TYPE_CHECKING:
    from rich.table import Table

CELLS, LIES = 12, 8  # of a sweep
MOST_MB, MOST_SECONDS = 300, 5.0
SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, calibration: {dataset: data, images: 4}}]
policies: [fp32, fp16, int8]
targets: [this.yaml]
threads: [1, 2]
options: [{}, {algorithm: gemm}]
protocol: {warmup: 1, runs: 2, rounds: 1, min_seconds: 0.0, timeout: 10, cool_seconds: 0, reruns: 0}
emulated: {images: 2}
"""
NAMES = [
    f"{precision} {threads} {algorithm}".strip()
    for precision in ("fp32", "fp16", "int8")
    for threads in (1, 2)
    for algorithm in ("", "gemm")
]


@dataclass
class Tally:
    """The counts of a campaign."""

    told: dict[str, bool] = field(default_factory=dict)  # lies, and whether each was refused with its cause
    done: int = 0
    failed: int = 0
    wrong: int = 0  # cells that did not end as they had to
    interrupted: int = 0
    peak_mb: float = 0.0  # of any harness
    slowest_end_seconds: float = 0.0
    found: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        held = all(self.told.values()) and not self.wrong and not self.found
        return held and self.peak_mb < MOST_MB and self.slowest_end_seconds < MOST_SECONDS

    def blame(self, what: str) -> None:
        self.found.append(what)

    def table(self) -> Table:
        from rich.table import Table

        table = Table("lie", "what the board does", "refused")
        lies: list[Mode | Lie] = [*MODES, *LIES_OF_SHELLS, LIE_OF_SERVER]
        for lie in lies:
            if lie.name in self.told:
                table.add_row(lie.name, lie.what, "yes" if self.told[lie.name] else "NO")
        table.add_section()
        for name in ("done", "failed", "wrong", "interrupted"):
            table.add_row(
                "",
                f"cells {name}" if name != "interrupted" else "sweeps interrupted",
                str(getattr(self, name)),
            )
        table.add_row("", "most memory of a harness, MB", f"{self.peak_mb:.0f}")
        table.add_row("", "slowest end after a signal, s", f"{self.slowest_end_seconds:.1f}")
        return table


class Harness:
    """A running `harness run`, whose peak memory is watched."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        self.peak_mb = 0.0
        with log.open("wb") as errors, log.with_suffix(".json").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "harness", *words],
                stdout=output,
                stderr=errors,
                start_new_session=True,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"},  # SIGABRT shows what every thread does
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            )
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()

    def _watch(self) -> None:
        while self.process.poll() is None:
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{self.process.pid}/status").read_text()
                if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                    self.peak_mb = max(self.peak_mb, int(found[1]) / 1024)
            time.sleep(0.02)

    def wait(self, seconds: float = 600) -> int:
        """The exit status. A harness that does not end is aborted: `said` has what it was doing."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            return self.process.wait()
        finally:
            if self.process.returncode is None:
                self.process.kill()
            self._watching.join()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def cells(self) -> dict[str, Any]:
        """Rows by the cells' names."""
        rows = json.loads(self.log.with_suffix(".json").read_text())["cells"]
        return {_name(row): row for row in rows}


def _name(row: Mapping[str, Any]) -> str:
    algorithm = re.sub(r".*algorithm=(\w+).*|.*", lambda found: found[1] or "", row["options"], count=1)
    return f"{row['policy']} {row['threads']} {algorithm}".strip()


class Trial:
    """Two boards, and the sweeps on them."""

    def __init__(self, folder: Path, seed: int, *, verbose: bool) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.tally = Tally()
        self.verbose = verbose
        # Nothing is emulated, and its engine is the host's own.
        (folder / "this.yaml").write_text('description: this machine, over SSH\nglibc: "2.28"\n')
        self.sweep = write_tiny_sweep(folder, SWEEP)
        libraries = build_libraries(folder)
        self.boards = [HostileBoard(name, folder / name, libraries) for name in ("attic", "shelf")]
        self._number = 0
        self._started = time.monotonic()

    def close(self) -> None:
        for board in self.boards:
            board.close()

    def start(self, entries: Sequence[Mapping[str, object]] | None = None) -> Harness:
        """A sweep on both boards, into a folder of its own."""
        self._number += 1
        file = self.folder / f"boards{self._number}.yaml"
        found = entries or [board.entry() for board in self.boards]
        file.write_text(json.dumps({"boards": list(found)}))
        words = ["run", "--json", "--matrix", str(self.sweep), "--boards", str(file), "--results"]
        return Harness([*words, str(self.results)], self.folder / f"log{self._number}")

    @property
    def results(self) -> Path:
        """The folder of the sweep that was started last."""
        return self.folder / f"results{self._number}"

    def lies_of_engines(self, modes: Sequence[Mode]) -> None:
        """Two sweeps at a time, both with the same lies."""
        queue = list(modes)
        while queue:
            some, queue = queue[:LIES], queue[LIES:]
            lying = dict(zip(self.chance.sample(NAMES, len(some)), some, strict=True))
            self._say(f"engines lie: {', '.join(mode.name for mode in some)}")
            for board in self.boards:
                board.plan({name: mode.name for name, mode in lying.items()})
            running = [self.start() for _ in range(2)]
            for harness in running:
                self._judge(harness, lying)
        for board in self.boards:
            board.plan({})

    def _judge(self, harness: Harness, lying: Mapping[str, Mode]) -> None:
        status = harness.wait()
        self._note(harness)
        if status != 6:
            self.tally.blame(f"status {status} instead of 6: {harness.said[-500:]}")
        cells = harness.cells()
        if set(cells) != set(NAMES):
            self.tally.blame(f"cells {sorted(cells)}")
        for name, row in cells.items():
            mode = lying.get(name)
            right = row["status"] == ("failed" if mode else "done")
            if mode:
                right = right and bool(re.search(mode.cause, row["error"]))
                right = right and not row["error"].startswith("unexpected")  # exception: a bug in harness
                right = right and not row["pareto_optimal"] and len(row["error"]) < 2000
                self.tally.told[mode.name] = self.tally.told.get(mode.name, True) and right
            self._count(
                row["status"],
                right,
                f"{name} {mode.name if mode else 'honest'}: {row['error'] or row['status']}",
            )

    def _count(self, status: str, right: bool, what: str) -> None:
        self.tally.done += status == "done"
        self.tally.failed += status == "failed"
        if not right:
            self.tally.wrong += 1
            self.tally.blame(what)

    def lies_of_shells(self, lies: Sequence[Lie]) -> None:
        """One board's shell lies: the other one does all cells."""
        for lie in lies:
            self._say(f"a shell lies: {lie.name}")
            self.boards[0].forget_files()  # existing files would not be sent and hashed again
            self.boards[0].lie(lie.name)
            harness = self.start()
            self._judge_shell(harness, lie)
            self.boards[0].lie("")

    def lies_of_servers(self) -> None:
        """What listens at the board's port is no SSH server: it prints without end."""
        self._say("a server lies")
        with flooding_server() as port:
            entries = [board.entry() for board in self.boards]
            self._judge_shell(self.start([entries[0] | {"port": port}, entries[1]]), LIE_OF_SERVER)

    def _judge_shell(self, harness: Harness, lie: Lie) -> None:
        status = harness.wait()
        self._note(harness)
        cells = harness.cells()
        for name, row in cells.items():
            self._count(
                row["status"], row["status"] == "done", f"{name} {lie.name}: {row['error'] or row['status']}"
            )
            if heat := (row["conditions"] or {}).get("hottest_celsius"):
                self._count("", heat < 150, f"{name}: {heat} degrees were believed")
        warned = rf"attic: (retrying|no longer used).*({lie.cause})"
        named = re.search(warned, harness.said) if lie.cause else True
        self.tally.told[lie.name] = (
            status == 0 and len(cells) == CELLS and bool(named) and "unexpected" not in harness.said
        )
        if not self.tally.told[lie.name]:
            self.tally.blame(f"{lie.name}: status {status}: {harness.said[-800:]}")

    def interrupt(self, times: int) -> None:
        """Sweeps full of lies that are interrupted at some moment, every other one with locked results."""
        lies = [mode.name for mode in MODES if mode.name.startswith(("flood", "hang"))]
        for board in self.boards:
            board.plan({name: self.chance.choice(lies) for name in NAMES[::2]})
        for number in range(times):
            moment, locked = self.chance.uniform(0.5, 12), number % 2 == 1
            which = self.chance.choice([signal.SIGINT, signal.SIGTERM])
            self._say(f"{which.name} after {moment:.1f} s{' with locked results' if locked else ''}")
            harness = self.start()
            with contextlib.suppress(subprocess.TimeoutExpired):
                harness.process.wait(moment)
            with _locked(self.results / FILE_NAME) if locked else contextlib.nullcontext():
                time.sleep(0.5)
                ended = harness.process.poll() is not None
                begun = time.monotonic()
                harness.process.send_signal(which)
                status = harness.wait(60)
                seconds = time.monotonic() - begun
            self._note(harness)
            self.tally.interrupted += 1
            if not ended:
                self.tally.slowest_end_seconds = max(self.tally.slowest_end_seconds, seconds)
            if not ended and (status not in (130, 143) or seconds >= MOST_SECONDS):
                self.tally.blame(
                    f"{which.name} after {moment:.1f} s, locked {locked}: {status} in {seconds:.1f} s: "
                    f"{harness.said[-6000:]}"
                )

    def _note(self, harness: Harness) -> None:
        self.tally.peak_mb = max(self.tally.peak_mb, harness.peak_mb)
        if "Traceback" in harness.said:
            self.tally.blame(harness.said[-1500:])

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"{time.monotonic() - self._started:4.0f} s: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Another program has a database to itself, once there is one."""
    if not path.is_file():
        yield
        return
    with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield


@contextlib.contextmanager
def trial(seed: int, *, verbose: bool = False) -> Iterator[Trial]:
    """Two boards of one's own, which end with it."""
    if os.geteuid() != 0:
        raise SystemExit("hostile boards need root: they have namespaces and disks of their own")
    with tempfile.TemporaryDirectory(prefix="harness-hostile-") as name:
        found = Trial(Path(name), seed, verbose=verbose)
        try:
            yield found
        finally:
            found.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--seed", type=int, default=1, help="of which cells are lied about, and when is interrupted"
    )
    parser.add_argument("--interrupts", type=int, default=12)
    parser.add_argument("--only", nargs="*", metavar="LIE", help="these lies (all)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the boards' disks have to be taken away

    def chosen(name: str) -> bool:
        return not arguments.only or name in arguments.only

    with trial(arguments.seed, verbose=True) as running:
        running.lies_of_engines([mode for mode in MODES if chosen(mode.name)])
        running.lies_of_shells([lie for lie in LIES_OF_SHELLS if chosen(lie.name)])
        if chosen("server"):
            running.lies_of_servers()
        running.interrupt(arguments.interrupts)
        tally = running.tally
    if arguments.json:
        print(json.dumps(asdict(tally) | {"seed": arguments.seed}, indent=2))
    else:
        from rich.console import Console

        Console().print(tally.table())
        for line in tally.found:
            print(line)
    return 0 if tally.holds else 1


if __name__ == "__main__":
    sys.exit(main())
