"""A seeded campaign of random networks over the engine's algorithms, instruction sets and threads.

    python tests/differential/random_networks.py --seed 1 --minutes 30 --json > x86.json
    python tests/differential/random_networks.py --seed 1 --minutes 30 --core cortex-a76 --compare x86.json
    python tests/differential/random_networks.py --seed 1 --minutes 10 --sanitize thread

Builds engine/tests/differential with sanitizers and runs it, one network per seed, until the time is over.
Each network (random_cfg.h and random_values.h there: usual to absurd) runs on each instruction set of the
machine with each algorithm, other numbers of threads and both preferences, also several sessions at once and
by the C interface (configurations.h). Then:

- no sanitizer complains, no process ends early, no network takes a minute (five under QEMU) of a processor,
  or ten times as long altogether, and no single allocation is larger than 512 MB;
- a network that is refused is refused with the same sentence by all configurations;
- int8 gives the same bits in all of them, fp32 and fp16 stay within the documented bounds of sums in double,
  and all other layers give the bits of the plain loops for the same input;
- `mpe forward` prints the same int8 digests for the last network of each hundred.

With --core, the program is for arm64 and runs under QEMU as that core. With --compare, int8 digests must be
those of an earlier campaign, such as one on another architecture. Below --folder, each finding has a
folder of its own with the network's files. Prints a table, or JSON with all digests; exit status 1 on a
finding.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from engine_tests import configure_and_build

from harness.build.emulator import CROSS_ROOT

PATHS = {"mpe": "mpe", "differential": "tests/differential/differential"}  # in the build
AT_ONCE = 100  # networks of one process: leaks are looked for at its end
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "max_allocation_size_mb=512:detect_stack_use_after_return=0",
    "TSAN_OPTIONS": "max_allocation_size_mb=512:halt_on_error=1:second_deadlock_stack=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclass(frozen=True, kw_only=True)
class Programs:
    """The engine's programs, and how they are started."""

    folder: Path
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: int = 60  # processor seconds for one network

    def command(self, name: str, *words: object) -> list[str]:
        return [*self.prefix, str(self.folder / PATHS[name]), *map(str, words)]

    def run(self, name: str, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(name, *words),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


def build_programs(folder: Path, *, core: str | None, sanitize: str) -> Programs:
    """Builds `differential` and `mpe` with sanitizers for this machine, or for arm64 where a core is named.

    Raises SystemExit where a compiler or QEMU is missing.
    """
    compiler = "aarch64-linux-gnu-g++" if core else "clang++"
    missing = [name for name in (compiler, *(("qemu-aarch64",) if core else ())) if not shutil.which(name)]
    if missing:
        raise SystemExit(f"the campaign needs {' and '.join(missing)}")
    # GCC takes an hour for -O3 with sanitizers, and warns of copies that are longer than any that happen.
    flags = "-O1;-g1;-Wno-error" if core else "-O2;-g1"
    options = [
        "-DMPE_BUILD_TESTS=ON",
        f"-DCMAKE_CXX_COMPILER={shutil.which(compiler)}",
        f"-DMPE_SANITIZE={sanitize}",
        "-DCMAKE_BUILD_TYPE=None",
        f"-DMPE_EXTRA_FLAGS={flags}",
    ]
    if core:
        options += ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    for target in ("differential", "mpe"):
        configure_and_build(folder, options, target=target)
    environment = dict(SANITIZER_OPTIONS)
    if not core:
        return Programs(folder=folder, environment=environment)
    # The search for leaks stops threads by ptrace, which QEMU does not have.
    environment["ASAN_OPTIONS"] += ":detect_leaks=0"
    prefix = ("qemu-aarch64", "-cpu", core, "-L", str(CROSS_ROOT))
    return Programs(folder=folder, prefix=prefix, environment=environment, limit=300)


@dataclass
class Tally:
    """The networks and findings of a campaign."""

    networks: int = 0
    refused: int = 0
    int8_networks: int = 0
    configurations: int = 0
    compared_digests: int = 0
    command_lines: int = 0
    processor_seconds: float = 0.0
    seeds: list[int] = field(default_factory=list)  # the first and the last
    layers: Counter[str] = field(default_factory=Counter)  # compared, by kernel
    digests: dict[str, list[str]] = field(default_factory=dict)  # by seed
    findings: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.networks > 0 and not self.findings

    def add(self, row: Mapping[str, Any], earlier: Mapping[str, Sequence[str]]) -> None:
        """Adds the program's output about one network."""
        seed = row["seed"]
        self.networks += 1
        self.seeds = [min([seed, *self.seeds]), max([seed, *self.seeds])]
        self.configurations += row["runs"]
        self.refused += bool(row["refused"])
        self.layers.update(row["kernels"])
        self.findings += [f"seed {seed}: {finding}" for finding in row["findings"]]
        if not row["int8_digests"]:
            return
        self.int8_networks += 1
        self.digests[str(seed)] = row["int8_digests"]
        if str(seed) not in earlier:
            return
        self.compared_digests += 1
        if earlier[str(seed)] != row["int8_digests"]:
            self.findings.append(f"seed {seed}: other int8 digests than in the campaign compared with")


class Campaign:
    """Runs seeds one after another; writes findings below `folder`."""

    def __init__(
        self, programs: Programs, folder: Path, *, earlier: Mapping[str, Sequence[str]], verbose: bool = False
    ) -> None:
        self.programs = programs
        self.folder = folder
        self.earlier = earlier
        self.verbose = verbose
        self.tally = Tally()

    def run(self, seed: int, *, seconds: float, networks: int = sys.maxsize) -> Tally:
        """Runs networks from `seed` on until the time is over or as many have run."""
        end = time.monotonic() + seconds
        last = seed + networks
        while seed < last and time.monotonic() < end:
            count = min(AT_ONCE, last - seed)
            begun = seed - 1
            for row in self._process(seed, count, end - time.monotonic()):
                begun = row["seed"]
                if "runs" in row:
                    self.tally.add(row, self.earlier)
                    for finding in row["findings"]:
                        self._keep(begun, finding)
            if begun < seed:
                break  # not even one could be begun: time is over, or the program does not start
            self._compare_command_line(begun)
            seed = begun + 1
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.tally.processor_seconds = used.ru_utime + used.ru_stime
        return self.tally

    def _process(self, seed: int, count: int, seconds: float) -> Iterator[dict[str, Any]]:
        """The output of a process: a seed before its network, and the results after it."""
        words = ["--seed", seed, "--count", count, "--seconds", max(seconds, 0.001)]
        words += ["--limit", self.programs.limit, "--folder", self.folder / "now"]
        begun = seed
        with (
            tempfile.TemporaryFile("w+", errors="replace") as errors,
            subprocess.Popen(
                self.programs.command("differential", *words),
                env={**os.environ, **self.programs.environment},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            complete = False
            for line in process.stdout:
                if line.startswith("seed "):
                    begun, complete = int(line.split()[1]), False
                    yield {"seed": begun}
                elif line.startswith("{"):
                    complete = True
                    row = json.loads(line)
                    yield row
                    if row["findings"] and self.verbose:
                        print(f"seed {begun}: {row['findings'][0]}", file=sys.stderr, flush=True)
            status = process.wait()
            if status == 0 or (status == 1 and complete):
                return
            errors.seek(0)
            self._ended(begun, status, errors.read())

    def _ended(self, seed: int, status: int, errors: str) -> None:
        """A process that ended before its last network."""
        if status in (-signal.SIGPROF, -signal.SIGALRM):
            what = f"takes more than {self.programs.limit} seconds of a processor, or waits for ever"
        else:
            summary = [line for line in errors.splitlines() if "SUMMARY" in line or "runtime error" in line]
            what = f"exit status {status}: {(summary or errors.splitlines() or ['no message'])[-1]}"
        self.tally.findings.append(f"seed {seed}: {what}")
        self._keep(seed, errors)
        if self.verbose:
            print(f"seed {seed}: {what}", file=sys.stderr, flush=True)

    def _keep(self, seed: int, what: str) -> None:
        """Writes the finding and the files of its network."""
        folder = self.folder / f"seed-{seed}"
        if not folder.exists():
            self.programs.run("differential", "--seed", seed, "--only-write", "--folder", folder)
        with (folder / "finding.txt").open("a") as file:
            file.write(f"{what}\n")

    def _compare_command_line(self, seed: int) -> None:
        """Runs `mpe forward` on a network whose int8 digests are known."""
        if str(seed) not in self.tally.digests:
            return
        folder = self.folder / "command"
        self.programs.run("differential", "--seed", seed, "--only-write", "--folder", folder)
        network = folder / "network"
        words = ["--cfg", f"{network}.cfg", "--weights", f"{network}.weights", "--input", f"{network}.npy"]
        calibration = Path(f"{network}.json")
        words += ["--calibration", str(calibration)] if calibration.exists() else []
        done = self.programs.run("mpe", "forward", *words, "--digest", "--threads", "2")
        self.tally.command_lines += 1
        if done.returncode != 0:
            # Files of images, unlike the library, have to be finite.
            if done.returncode == 2 and done.stderr.startswith("mpe: ") and "finite" in done.stderr:
                return
            self.tally.findings.append(f"seed {seed}: `mpe forward` fails: {done.stderr[-300:]}")
        elif json.loads(done.stdout)["digests"] != self.tally.digests[str(seed)]:
            self.tally.findings.append(f"seed {seed}: `mpe forward` prints other digests")


def print_table(tally: Tally) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{tally.networks} networks, seeds {' to '.join(map(str, tally.seeds))}")
    table.add_column("")
    table.add_column("count", justify="right")
    table.add_row("configurations", f"{tally.configurations:,}")
    table.add_row("networks refused, by all alike", f"{tally.refused:,}")
    table.add_row("networks of int8 sums only", f"{tally.int8_networks:,}")
    table.add_row("their digests compared with another campaign's", f"{tally.compared_digests:,}")
    table.add_row("processor time, minutes", f"{tally.processor_seconds / 60:.1f}")
    for kernel, count in sorted(tally.layers.items()):
        table.add_row(f"layers in {kernel}", f"{count:,}")
    table.add_row("findings", f"{len(tally.findings):,}")
    console = Console()
    console.print(table)
    for finding in tally.findings:
        console.print(finding, markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first network's")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--networks", type=int, default=sys.maxsize, help="end after so many")
    parser.add_argument("--core", help="run for arm64 under QEMU as this core, such as cortex-a76")
    parser.add_argument("--sanitize", default="address,undefined", help="sanitizers of the compiler")
    parser.add_argument("--compare", type=Path, help="JSON of an earlier campaign with the same seeds")
    parser.add_argument("--build", type=Path, help="keep the build here")
    parser.add_argument("--folder", type=Path, default=Path("differential-findings"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    earlier = json.loads(arguments.compare.read_text())["digests"] if arguments.compare else {}
    with tempfile.TemporaryDirectory(prefix="harness-differential-") as name:
        folder = (arguments.build or Path(name)).resolve()
        programs = build_programs(folder, core=arguments.core, sanitize=arguments.sanitize)
        campaign = Campaign(programs, arguments.folder.resolve(), earlier=earlier, verbose=True)
        tally = campaign.run(arguments.seed, seconds=60 * arguments.minutes, networks=arguments.networks)
    if arguments.json:
        print(json.dumps(vars(tally), indent=1))
    else:
        print_table(tally)
    return 0 if tally.holds else 1


if __name__ == "__main__":
    sys.exit(main())
