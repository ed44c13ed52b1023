"""Sweeps on this machine: resumed after SIGKILL, shared by two processes, repeated, failing.

Every result gets a revision when it is written; as long as the largest revision equals the number of results,
none was written twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tiny_sweep import command, finish, query, results, run, start, write_tiny_sweep

from harness.cli import main
from harness.runtimes.engine import host_engine

pytestmark = pytest.mark.engine

SWEEP = """\
models:
  - {name: tiny, cfg: tiny.cfg, weights: tiny.weights, dataset: data, calibration: {images: 4}}
policies:
  - fp32
  - fp16
  - int8
  - as-is
  - {name: mixed, default: int8, layers: {first: fp32, depthwise: fp16}}
  - {name: dynamic, default: int8, quantize: 1}
  - {each: int8}
targets: [host]
threads: [1, 2]
protocol: {warmup: 1, runs: 5, min_seconds: 0.05}
"""
CELLS = 2 * 9


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    """Built before the clock of any test runs."""
    host_engine()


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_tiny_sweep(tmp_path, SWEEP)


def check_whole(sweep: Path) -> None:
    """Nothing is lost, nothing is there twice or in part."""
    found = results(sweep)
    assert query(sweep, "PRAGMA integrity_check") == [("ok",)]
    assert len([row for row in found if row[0] == "cell"]) == CELLS
    assert {row[2] for row in found} == {"done"}
    assert sorted(row[4] for row in found) == list(range(1, len(found) + 1))
    assert query(sweep, "SELECT * FROM claims") == []
    runs = {row[1]: sum(json.loads(row[3])["rounds"]) for row in found if row[0] == "cell"}
    samples = query(sweep, "SELECT key, count(*) FROM samples JOIN cells USING (revision) GROUP BY key")
    assert dict(samples) == runs
    assert query(sweep, "SELECT count(*) FROM layers") == [(4 * CELLS,)]
    assert list((sweep.parent / "results" / "owners").iterdir()) == []


def check_cells(data: dict[str, Any]) -> None:
    assert len(data["cells"]) == CELLS
    for cell in data["cells"]:
        assert (cell["status"], cell["emulated"], cell["instructions"]) == ("done", False, None)
        assert min(cell["fps"], cell["p50_ms"], cell["peak_rss_bytes"], cell["arena_bytes"]) > 0
        assert cell["p50_ms"] <= cell["p90_ms"]
        assert 0 <= cell["accuracy"] <= 1
        assert cell["digest_matches_host"] is True
    assert any(cell["pareto_optimal"] for cell in data["cells"])


def kill_after(process: subprocess.Popen[str], sweep: Path, count: int, delay: float) -> None:
    """SIGKILLs a sweep `delay` seconds after it has written its `count`th result."""
    deadline = time.monotonic() + 120
    while len(results(sweep)) < count and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_sweep_resumes(sweep: Path, seed: int) -> None:
    chance = random.Random(seed)
    kept: set[tuple[Any, ...]] = set()
    for _ in range(3):
        process = start(sweep)
        kill_after(process, sweep, len(kept) + chance.randint(0, 5), chance.uniform(0, 0.4))
        assert process.returncode == -signal.SIGKILL
        found = results(sweep)
        assert kept <= found
        kept = found
    assert kept
    check_cells(run(sweep))
    assert kept <= results(sweep)
    check_whole(sweep)


def test_two_sweeps_at_once_share_the_work(sweep: Path) -> None:
    first, second = start(sweep), start(sweep)
    one, other = finish(first), finish(second)
    check_cells(one)
    check_whole(sweep)
    assert one["cells"] == other["cells"]


def test_the_survivor_of_two_sweeps_does_what_the_other_left(sweep: Path) -> None:
    first, second = start(sweep), start(sweep)
    kill_after(first, sweep, 4, 0.05)
    kept = results(sweep)
    check_cells(finish(second))
    assert kept <= results(sweep)
    check_whole(sweep)


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")],
)
def test_an_interrupted_sweep_gives_up_its_claims_and_resumes(
    sweep: Path, number: signal.Signals, status: int, said: str
) -> None:
    process = start(sweep)
    deadline = time.monotonic() + 300
    while len(results(sweep)) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == status, stderr
    assert stderr.endswith(f"harness: {said}\n")
    assert query(sweep, "SELECT * FROM claims") == []
    kept = results(sweep)
    assert {row[2] for row in kept} == {"done"}
    check_cells(run(sweep))
    assert kept <= results(sweep)
    check_whole(sweep)


class Interrupting(ThreadPoolExecutor):
    """Gets a signal after its first thread has started."""

    def submit(self, *arguments: Any, **more: Any) -> Future[Any]:
        future = super().submit(*arguments, **more)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)  # the handler of the signal runs
        return future


def test_a_signal_while_threads_start_ends_the_sweep(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep.write_text(SWEEP.replace("min_seconds: 0.05", "min_seconds: 20, rounds: 1"))
    monkeypatch.setattr("harness.sweep.run.ThreadPoolExecutor", Interrupting)
    assert main(["run", "--matrix", str(sweep), "--results", str(sweep.parent / "results")]) == 143
    assert [row for row in results(sweep) if row[0] == "cell"] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_an_engine_that_is_measured_ends_with_the_sweep(sweep: Path, number: signal.Signals) -> None:
    sweep.write_text(SWEEP.replace("min_seconds: 0.05", "min_seconds: 60, rounds: 1"))
    process = start(sweep)
    deadline = time.monotonic() + 300
    while not measured(sweep):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 1
    while engines := measured(sweep):
        assert time.monotonic() < deadline, engines
        time.sleep(0.01)


def measured(sweep: Path) -> list[int]:
    """The processes, shells among them, that have to do with running `mpe bench` for a sweep here."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"bench" in words and os.fsencode(sweep.parent / "tiny.weights") in words:
                found.append(int(path.parent.name))
    return found


def test_the_same_again_measures_nothing_and_fresh_measures_all(sweep: Path) -> None:
    first = run(sweep)
    before = results(sweep)
    again = run(sweep)
    assert again["cells"] == first["cells"]
    assert results(sweep) == before
    fresh = run(sweep, "--fresh")
    check_cells(fresh)
    after = results(sweep)
    assert {row[1] for row in after} == {row[1] for row in before}
    assert min(row[4] for row in after) > max(row[4] for row in before)
    exact = {cell["policy"]: cell["digest"] for cell in fresh["cells"]}
    assert exact == {cell["policy"]: cell["digest"] for cell in first["cells"]}


def test_only_chosen_cells_are_measured_again(sweep: Path) -> None:
    """Also the others are in the report: without a result, or with the earlier one."""
    first = run(sweep, "--cell", "host tiny int8 1 thread")
    assert {cell["policy"] for cell in first["cells"] if cell["status"] == "done"} == {"int8"}
    assert first["counts"] == {"done": 1, "failed": 0, "skipped": 0, "pending": CELLS - 1}
    run(sweep)
    before = dict(query(sweep, "SELECT key, revision FROM cells"))
    (cell,) = (cell for cell in run(sweep)["cells"] if (cell["policy"], cell["threads"]) == ("fp16", 2))
    words = shlex.split(cell["rerun_command"])
    assert words[:4] == ["harness", "run", "--matrix", str(sweep)]
    again = run(sweep, *words[words.index("--cell") :])
    assert again["counts"]["done"] == CELLS
    after = dict(query(sweep, "SELECT key, revision FROM cells"))
    assert len([key for key in before if before[key] != after[key]]) == 1
    assert before.keys() == after.keys()


def test_only_what_changed_is_done_again(sweep: Path) -> None:
    run(sweep)
    before = results(sweep)
    sweep.write_text(SWEEP.replace("threads: [1, 2]", "threads: [1, 2, 3]"))
    assert len(run(sweep)["cells"]) == CELLS // 2 * 3
    after = results(sweep)
    assert before <= after
    assert {row[0] for row in after - before} == {"cell"}
    assert len(after - before) == CELLS // 2


def test_cells_fail_one_by_one_with_their_cause(sweep: Path) -> None:
    sweep.write_text(SWEEP + "options: [{}, {isa: abacus}]\n")
    data = run(sweep, status=6)
    states = {(cell["options"], cell["status"]) for cell in data["cells"]}
    assert states == {("", "done"), ("isa=abacus", "failed")}
    assert all("abacus" in cell["error"] for cell in data["cells"] if cell["status"] == "failed")
    before = results(sweep)
    run(sweep, status=6)  # failed cells are tried again, the others are not
    changed = results(sweep) - before
    assert {row[2] for row in changed} == {"failed"}
    assert len(changed) == CELLS


def test_a_corrupt_picture_spoils_accuracy_and_says_so(sweep: Path) -> None:
    (sweep.parent / "data" / "images" / "5.png").write_bytes(b"no picture")
    data = run(sweep, status=6)
    for cell in data["cells"]:
        assert cell["status"] == "failed"
        assert cell["error"].startswith("accuracy: ")
        assert "5.png" in cell["error"]
        assert cell["fps"] > 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tiny.weights", b"\0" * 100, "has 100 bytes"),
        ("tiny.cfg", b"[net]\nwidth=32\nheight=32\nchannels=3\n[convolution]\n", "tiny.cfg:5"),
        ("sweep.yaml", b"polices: []\n", "sweep.yaml:1: unknown key polices"),
        ("data/labels/2.txt", b"0 0.5 0.5 x 0.1\n", "2.txt:1"),
    ],
    ids=["weights", "cfg", "sweep", "labels"],
)
def test_bad_input_is_refused_before_anything_is_measured(
    sweep: Path, name: str, content: bytes, message: str
) -> None:
    (sweep.parent / name).write_bytes(content)
    assert message in run(sweep, status=2)["error"]["message"]
    assert results(sweep) == set()


def test_pictures_of_calibration_that_are_evaluated_are_noted(tmp_path: Path) -> None:
    """With one data set for both, and with the splits of a data.yaml, which keeps them apart."""
    text = """\
models: [{name: tiny, cfg: tiny.cfg, weights: tiny.weights, dataset: data, calibration: {images: 4}}]
policies: [fp32, int8]
targets: [host]
protocol: {warmup: 0, runs: 2, min_seconds: 0, rounds: 1}
"""
    sweep = write_tiny_sweep(tmp_path, text)
    sentence = "4 of the 6 evaluated pictures were also used for calibration"
    report = tmp_path / "results" / "report.md"
    done = subprocess.run(command(sweep), capture_output=True, text=True, check=True)
    where = tmp_path / "data"
    assert f"ranges recorded on 4 pictures of {where}, since the sweep names no other pictures" in done.stderr
    assert done.stderr.count(f"tiny: {sentence}") == 1
    assert f"tiny: {sentence}" in report.read_text()

    (tmp_path / "train.txt").write_text("data/images/0.png\ndata/images/1.png\n")
    (tmp_path / "val.txt").write_text("data/images/2.png\ndata/images/3.png\n")
    (tmp_path / "data.yaml").write_text("train: train.txt\nval: val.txt\nnames: [a, b]\n")
    sweep.write_text(text.replace("dataset: data", "dataset: data.yaml"))
    done = subprocess.run(command(sweep), capture_output=True, text=True, check=True)
    assert f"ranges recorded on 2 pictures of {tmp_path / 'data.yaml'}:train" in done.stderr
    assert "evaluated pictures were also" not in done.stderr + report.read_text()
    assert all(cell["accuracy"] is not None for cell in json.loads(done.stdout)["cells"])


def test_compilers_and_flags_are_compared_on_one_machine(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++: `harness doctor --install --tests`")
    text = SWEEP.replace("targets:", "toolchains: [zig, {toolchain: gcc, flags: -O0}]\ntargets:", 1)
    assert text != SWEEP
    cells = run(write_tiny_sweep(tmp_path, text))["cells"]
    assert {cell["status"] for cell in cells} == {"done"}
    assert {cell["toolchain"] for cell in cells} == {"zig", "gcc -O0"}


def test_algorithms_are_chosen_by_measuring_and_threads_stay_on_cores(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    options = f"options: [{{}}, {{tune: true, cores: '{core}'}}]\nthreads: [1]"
    text = SWEEP.replace("threads: [1, 2]", options, 1)
    assert text != SWEEP
    cells = run(write_tiny_sweep(tmp_path, text))["cells"]
    assert {cell["status"] for cell in cells} == {"done"}
    assert {cell["options"] for cell in cells} == {"", f"cores={core} tune"}
