"""A whole sweep through a place of labgrid's: acquired for it, released after it, also after SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from arm64_board import TARGET, running_board
from labgrid_processes import Lab, running_lab
from started_processes import end_what_was_started
from tiny_sweep import finish, query, results, run, start, write_tiny_sweep

from harness import cli
from harness.boards.labgrid.board import hold_of
from harness.boards.labgrid.coordinator import own_name

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

SWEEP = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, calibration: {dataset: data, images: 2}}]
policies: [fp32, int8]
targets: [pi4]
protocol: {warmup: 1, runs: 5, min_seconds: 0.8, rounds: 1, cool_seconds: 0}
emulated: {images: 1}
"""
CELLS = 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with (
        running_board(tmp_path_factory.mktemp("sshd")) as server,
        running_lab(server, tmp_path_factory.mktemp("labgrid"), ("shelf",)) as lab,
    ):
        yield lab


@pytest.fixture(autouse=True)
def _nothing_is_held_or_left_afterwards(lab: Lab) -> Iterator[None]:
    yield
    end_what_was_started()
    assert lab.release() == []
    work = Path(lab.server.address.folder)
    wait_until(lambda: not any(work.glob("sessions/*")))
    assert [path for pattern in ("partial/*", "lock/held/*", "ended/*") for path in work.glob(pattern)] == []
    assert engines(lab) == []


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_tiny_sweep(tmp_path, SWEEP)


@pytest.fixture
def boards(lab: Lab, tmp_path: Path) -> str:
    entry = {
        "name": "desk",
        "target": TARGET,
        "place": "shelf",
        "key": str(lab.server.address.key),
        "host_key": (lab.server.folder / "host.pub").read_text().strip(),
        "folder": lab.server.address.folder,
    }
    path = tmp_path / "boards.yaml"
    path.write_text(json.dumps({"labgrid": {"coordinator": lab.coordinator}, "boards": [entry]}))
    return str(path)


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def engines(lab: Lab) -> list[int]:
    """The processes on the board that run the engine from its folder there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        # Under binfmt_misc the program is QEMU's first argument.
        if any(word.startswith(f"{lab.server.address.folder}/objects/".encode()) for word in words[:3]):
            found.append(int(path.parent.name))
    return found


def pause_engine(lab: Lab, process: subprocess.Popen[str]) -> list[int]:
    """Waits until the sweep runs the engine on the board, and has it stand still there."""
    wait_until(lambda: bool(engines(lab)), process)
    stopped = engines(lab)
    for engine in stopped:
        os.kill(engine, signal.SIGSTOP)
    return stopped


def check_whole(sweep: Path) -> None:
    found = [row for row in results(sweep) if row[0] == "cell"]
    assert [row[2] for row in found] == ["done"] * CELLS
    assert query(sweep, "SELECT * FROM claims") == []


def test_the_place_is_acquired_while_cells_run_and_released_afterwards(
    lab: Lab, sweep: Path, boards: str
) -> None:
    process = start(sweep, "--boards", boards)
    stopped = pause_engine(lab, process)
    (holder,) = [line for line in lab.client("who").splitlines() if "shelf" in line]
    assert holder.split()[:2] == own_name().split("/")[::-1]
    for engine in stopped:
        os.kill(engine, signal.SIGCONT)
    data = finish(process)
    assert hold_of(lab.place()).by == "nobody"
    assert [(cell["status"], cell["board"], cell["emulated"]) for cell in data["cells"]] == [
        ("done", "desk", False)
    ] * CELLS
    assert all(cell["digest_matches_host"] for cell in data["cells"])
    check_whole(sweep)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_that_is_told_to_end_releases_the_place(
    lab: Lab, sweep: Path, boards: str, number: signal.Signals
) -> None:
    process = start(sweep, "--boards", boards)
    pause_engine(lab, process)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, stderr
    assert hold_of(lab.place()).by == "nobody"
    assert query(sweep, "SELECT * FROM claims") == []


def kill_in_a_cell(lab: Lab, sweep: Path, boards: str) -> set[tuple[object, ...]]:
    """SIGKILLs a sweep while its second cell runs; the results that it had."""
    process = start(sweep, "--boards", boards)
    wait_until(lambda: any(row[0] == "cell" for row in results(sweep)), process)
    pause_engine(lab, process)
    process.kill()
    process.communicate()
    kept = results(sweep)
    assert len([row for row in kept if row[0] == "cell"]) == 1
    assert hold_of(lab.place()).by == "dead"
    # The keeper on the board ends what ran there, without anybody's help.
    wait_until(lambda: not engines(lab))
    return kept


def test_a_place_held_by_a_killed_sweep_is_unlocked_and_the_sweep_resumes(
    lab: Lab, sweep: Path, boards: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = kill_in_a_cell(lab, sweep, boards)
    assert cli.main(["boards", "--boards", boards, "--json"]) == 5
    row = json.loads(capsys.readouterr().out)["boards"][0]
    assert (row["name"], row["status"]) == ("desk", "left over")
    assert cli.main(["boards", "unlock", "--boards", boards, "desk"]) == 0
    assert hold_of(lab.place()).by == "nobody"
    run(sweep, "--boards", boards)
    assert kept <= results(sweep)
    check_whole(sweep)


def test_the_next_sweep_takes_over_from_a_killed_one_and_completes(
    lab: Lab, sweep: Path, boards: str
) -> None:
    kept = kill_in_a_cell(lab, sweep, boards)
    run(sweep, "--boards", boards)
    assert kept <= results(sweep)
    check_whole(sweep)
