"""`harness run --watch` from end to end: boards that are this machine, and an engine that is a script."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cells_in_store import scores
from fake_boards import bare
from networks import printed_bench
from rich.console import Console

from harness import console
from harness.boards.host import HostBoard
from harness.cli import main
from harness.config.policy import Policy, Setting, apply
from harness.config.sweep import Build, Options, Variant
from harness.config.targets import Target, load_target
from harness.errors import BoardRefusedError
from harness.measure.result import Outcome
from harness.report.board_table import BoardTable
from harness.runtimes.base import Program
from harness.sweep import run as runner
from harness.sweep.fleet import Fleet
from harness.sweep.inputs import SweepInputs
from harness.sweep.preparation import OWN, Request
from harness.sweep.worker import Job, at_once

if TYPE_CHECKING:
    from harness.boards.base import Board

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
BOARDS = ("desk", "[red]shelf[/red]", "loft", "attic")
POLICIES, CELLS, FAILING = 2, 8, 2
SWEEP = {
    "models": [
        {"name": "digits", "cfg": str(DIGITS / "digits.cfg"), "weights": str(DIGITS / "digits.weights")}
    ],
    "policies": ["fp32", "fp16"],
    "targets": ["pi4"],
    "threads": [1, 2, 3, 4],
    "toolchains": [{"toolchain": "zig", "flags": "-O2 [red]"}],
    "emulated": {"images": 0},
}
INFO = {"weights_bytes": (DIGITS / "digits.weights").stat().st_size, "layers": [{"macs": 1000}]}
SAMPLES = [1_000_000 + number for number in range(30)]
CFG = (DIGITS / "digits.cfg").read_text()
BENCH = {
    name: printed_bench(apply(Policy(name=name, default=Setting(precision=name)), CFG), SAMPLES)
    for name in ("fp32", "fp16")
}
ENGINE = f"""#!/bin/sh
case "$*" in
  info*) echo '{json.dumps(INFO)}' ;;
  *"--threads 4"*) echo "too many threads" >&2; exit 1 ;;
  *) if grep -q fp16=1 "$3"; then echo '{BENCH["fp16"]}'; else echo '{BENCH["fp32"]}'; fi ;;
esac
"""

Run = Callable[..., int]


class Looks:
    """Counts how often anybody has looked at the boards."""

    number = 0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.expected = False
        for method in ("drawn", "news"):
            monkeypatch.setattr(BoardTable, method, self._counted(getattr(BoardTable, method)))

    def _counted(self, method: Callable[..., object]) -> Callable[..., object]:
        def look(*arguments: object) -> object:
            seen = method(*arguments)
            self.number += 1
            return seen

        return look

    def wait(self) -> None:
        """Until one that began later has ended."""
        until, deadline = self.number + 2, time.monotonic() + 30
        while self.expected and self.number < until:
            assert time.monotonic() < deadline
            time.sleep(0.005)


class WatchedBoard(HostBoard):
    """This machine without sensors; it sends files until that was seen."""

    def __init__(self, name: str, folder: Path, looks: Looks) -> None:
        super().__init__(load_target("pi4"))
        self.name = name
        self.folder = folder
        self.looks = looks
        self.sensors = bare(folder)

    def deploy(self, files: Mapping[str, Path]) -> Mapping[str, str]:
        with console.progress(f"{self.name}: sending weights", 7) as bar:
            bar.advance(3)
            self.looks.wait()
        return super().deploy(files)

    def scratch(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the sweep. The board in the attic lets nobody in, and cells of four threads fail."""
    looks = Looks(monkeypatch)
    executable = tmp_path / "mpe"
    executable.write_text(ENGINE)
    executable.chmod(0o755)

    class Boards(Fleet):
        def is_emulated(self, target: Target) -> bool:
            return False

        def boards(self, target: Target) -> tuple[str, ...]:
            return BOARDS

        def open(self, board: str) -> Board:
            if board == "attic":
                raise BoardRefusedError("attic: another host key")
            folder = tmp_path / str(BOARDS.index(board))
            folder.mkdir()
            return WatchedBoard(board, folder, looks)

    def evaluated(_inputs: SweepInputs, variant: Variant, _options: Options, _runtime: str) -> Job:
        def perform() -> Outcome:
            with console.progress("evaluating", 9) as bar:
                bar.advance(4)
                looks.wait()
            return scores(top1=0.5)

        name = f"accuracy of {variant.policy}"
        return Job(
            name=name, table="evaluations", key=variant.policy, kind="accuracy", perform=at_once(perform)
        )

    def built(
        wanted: Iterable[tuple[str, Target, Build]], _worker: object, _algorithms: object
    ) -> dict[Request, Program]:
        names = [OWN, *((runtime, target.name, build) for runtime, target, build in wanted)]
        return dict.fromkeys(names, Program(path=executable, sha256="0" * 64))

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.sweep.fleet.Fleet", Boards)
    monkeypatch.setattr(runner, "prepare_programs", built)
    monkeypatch.setattr(SweepInputs, "accuracy_job", evaluated)
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(json.dumps(SWEEP))
    command = ["run", "--json", "--matrix", str(sweep), "--results", str(tmp_path / "results")]

    def start(*more: str) -> int:
        looks.expected = "--watch" in more
        return main([*command, *more])

    return start


def test_without_a_terminal_changes_are_lines(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_NEWS_SECONDS", 0.02)
    assert run("--watch") == 6  # some cells failed
    said = capfd.readouterr().err
    cell = r"digits fp\d+ \d+ threads? zig -O2 \[red\]"
    assert re.search(rf"^desk: measuring {cell} \(\d+ done, \d failed", said, re.MULTILINE)
    assert re.search(r"^desk: measuring .* done, \d failed, pi4 \d+ s left\)$", said, re.MULTILINE)
    ended = re.findall(r"^(\S+): finished \((\d+) done, (\d+) failed\)$", said, re.MULTILINE)
    assert {name for name, _, _ in ended} == {*BOARDS, "evaluation"} - {"attic"}
    assert sum(int(done) for _, done, _ in ended) == CELLS - FAILING + POLICIES
    assert sum(int(failed) for _, _, failed in ended) == FAILING
    assert re.search(r"^evaluation: measuring accuracy of fp16 \(\d done, 0 failed\)$", said, re.MULTILINE)
    assert said.count("attic: ") == 2  # the warning, with its cause
    assert not re.search(r"[^\n\x20-\U0010ffff]", said)


def test_on_a_terminal_a_table_is_drawn_above_the_bar(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=90, height=7, soft_wrap=True, highlight=False)
    monkeypatch.setattr(console, "interactive", lambda: True)
    monkeypatch.setattr(console, "stderr", lambda: terminal)
    assert run("--watch") == 6
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", screen.getvalue())
    frames = [frame.splitlines() for frame in plain.split("board ")[1:]]
    assert all(frame[0].split() == ["target", "state", "for", "done", "failed", "left"] for frame in frames)
    assert all(re.fullmatch(r"and 2 more: \d \w.*", frame[4]) for frame in frames)
    assert all(f"/{CELLS + POLICIES} " in frame[5] for frame in frames)
    rows = [row.rstrip() for frame in frames for row in frame[1:4]]
    for expected in (
        r"attic +pi4 +quarantined: another host key +\d s +0 +0 +\S.*",
        r"evaluation +evaluating: 4/9 +\d s +\d +0 +\S",
        r"desk +pi4 +sending weights: 3/7 +\d s +\d +\d +\S.*",
    ):
        assert any(re.fullmatch(expected, row) for row in rows), expected
    assert console._bar is None
    assert not console._views


def test_without_watch_nothing_is_said_of_boards(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 6
    said = capfd.readouterr().err
    assert "finished" not in said
    assert "attic: no longer used: attic: another host key" in said
