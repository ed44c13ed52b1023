"""Evaluations on a Dask cluster: a scheduler and three workers on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.accuracy.evaluate import evaluate
from harness.accuracy.executor import ClusterExecutor
from harness.config.darknet_cfg import read_cfg
from harness.errors import TargetMismatchError
from harness.exporting.calibration import read_calibration
from harness.exporting.network import read_network
from harness.runtimes.engine import EngineOptions, HostEngine
from harness.search.evaluator import Evaluator
from harness.search.layer_costs import probed_costs
from harness.search.layer_timer import MeasuredTimer, Model
from harness.search.point import Limits
from harness.search.precision_graph import precision_graph
from harness.search.search import Search
from harness.tasks import dask_worker
from harness.tasks.base import Stopped, Task, stoppable
from harness.tasks.dask_runner import DaskRunner

pytestmark = pytest.mark.engine

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
FILES = {kind: DIGITS / f"digits.{kind}" for kind in ("cfg", "weights", "calibration.json")}
WORKERS = 3
EVALUATED: dict[str, Any] = {
    "cfg": FILES["cfg"],
    "weights": FILES["weights"],
    "calibration": FILES["calibration.json"],
    "dataset": DIGITS / "data",
    "limit": 8,
}

# An engine that writes which process starts it for which cfg, and on the first two workers takes its time.
TOLD = """#!/bin/sh
[ "$1" = forward ] || exec {engine} "$@"
echo "$PPID $(cksum < "$3" | tr ' ' -)" >> {log}
case "$HARNESS_CACHE" in *worker-[01]) sleep 0.1 ;; esac
exec {engine} "$@"
"""

# An engine that chooses other kernels on the workers.
OTHER_PROCESSOR = """#!/bin/sh
case "$1 $HARNESS_CACHE" in
caps*worker-*) {engine} caps | sed 's/"best":"[a-z0-9_]*"/"best":"other"/' ;;
*) exec {engine} "$@" ;;
esac
"""


@dataclass
class Cluster:
    address: str
    workers: list[subprocess.Popen[bytes]]
    folder: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    silent = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s"}

    def start(command: str, *words: str, cache: str = "", **environment: str) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "dask",
                    command,
                    "--scheduler-file",
                    str(file),
                    "--no-dashboard",
                    *words,
                ],
                env=os.environ | environment | {"HARNESS_CACHE": str(folder / cache)},
                stdout=log,
                stderr=log,
                cwd=folder,
            )

    processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0", **silent)]
    try:
        words = ["--no-nanny", "--nthreads", "1", "--host", "127.0.0.1"]
        processes += [start("worker", *words, cache=f"worker-{number}") for number in range(WORKERS)]
        while not file.exists() or not file.read_text():
            assert processes[0].poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        yield Cluster(json.loads(file.read_text())["address"], processes[1:], folder)
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@pytest.fixture
def runner(cluster: Cluster) -> Iterator[DaskRunner]:
    runner = DaskRunner(cluster.address)
    try:
        yield runner
    finally:
        runner.close()


def test_a_command_evaluates_on_the_cluster_what_it_would_evaluate_here(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--cfg", str(FILES["cfg"]), "--weights", str(FILES["weights"]), "--precision", "int8"]
    words += ["--calibration", str(FILES["calibration.json"]), "--dataset", str(DIGITS / "data"), "--json"]
    words += ["--limit", "8", "--steps", "0", "--results", str(tmp_path)]

    def sensitivity(*more: str) -> Any:
        assert cli.main(["sensitivity", *words, *more]) == 0
        out, err = capsys.readouterr()
        assert "another harness" not in err
        document = json.loads(out)
        for row in document["layers"]:
            del row["ms"]
        return document

    found = sensitivity("--scheduler", cluster.address)
    assert found["executed"] == 2 * len(read_cfg(FILES["cfg"]).weighted) + 2
    assert sensitivity() == found | {"executed": 0}


def test_accuracy_is_the_same_on_the_cluster(runner: DaskRunner, host_engine: HostEngine) -> None:
    executor = ClusterExecutor(runner=runner, engine=host_engine)
    common: dict[str, Any] = EVALUATED | {"limit": 20, "cfg": DIGITS / "digits.cfg", "resample": True}
    found = evaluate(host_engine, executor=executor, **common)
    assert found == evaluate(host_engine, **common)
    assert found["images"] == 20


def test_a_stopped_sweep_does_not_wait_for_workers(runner: DaskRunner) -> None:
    with stoppable(lambda: True), pytest.raises(Stopped):
        runner.run([Task(name="", function=abs, arguments=(-1,))], lambda *_: None)


def test_files_are_sent_once_to_each_worker(
    cluster: Cluster, runner: DaskRunner, host_engine: HostEngine, tmp_path: Path
) -> None:
    for folder in ("first", "second"):
        with Evaluator(host_engine, folder=tmp_path / folder, runner=runner, **EVALUATED) as evaluator:
            evaluator.evaluate(
                [evaluator.uniform("fp16"), evaluator.uniform("int8"), evaluator.uniform("fp32")]
            )
        if folder == "first":
            before = {path: path.stat().st_mtime_ns for path in cluster.folder.glob("*/received/*")}
    after = {path: path.stat().st_mtime_ns for path in cluster.folder.glob("*/received/*")}
    assert {path: after[path] for path in before} == before


def test_an_interrupted_search_keeps_what_was_evaluated(
    runner: DaskRunner, host_engine: HostEngine, tmp_path: Path
) -> None:
    class Interrupting:
        advanced = 0

        def advance(self, n: int = 1) -> None:
            self.advanced += n
            if self.advanced == 3:
                raise KeyboardInterrupt

        def describe(self, text: str) -> None: ...

    with Evaluator(host_engine, folder=tmp_path, runner=runner, **EVALUATED) as evaluator:
        base = evaluator.uniform("fp32")
        assignments = [base.changed({layer: "int8"}) for layer in evaluator.layers]
        with pytest.raises(KeyboardInterrupt):
            evaluator.evaluate(assignments, Interrupting())
        first = evaluator.executed
        assert 3 <= first < len(assignments)
        evaluator.evaluate(assignments)
        assert evaluator.executed == len(assignments)


def test_a_worker_with_other_versions_or_other_arithmetic_is_refused(
    cluster: Cluster,
    runner: DaskRunner,
    host_engine: HostEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(engine: HostEngine) -> str:
        with Evaluator(engine, folder=tmp_path, runner=runner, **EVALUATED) as evaluator:
            with pytest.raises(TargetMismatchError) as caught:
                evaluator.evaluate([evaluator.uniform("fp16")])
            assert caught.value.where in caught.value.message
            assert caught.value.where.startswith("tcp://127.0.0.1:")
            return caught.value.message

    here = dask_worker.versions()
    with monkeypatch.context() as patch:
        patch.setattr(dask_worker, "versions", lambda: "harness 9.9")
        assert f"has {here}, but the command runs with harness 9.9" in refused(host_engine)
    best = host_engine.arithmetic()["isa"]
    other = tmp_path / "mpe"
    other.write_text(OTHER_PROCESSOR.format(engine=host_engine.executable))
    other.chmod(0o700)
    said = refused(HostEngine(other))
    assert "the engine computes with other and caches of" in said
    assert f"but with {best} and caches of" in said


@dataclass
class Failures:
    """Kills one worker and pauses another one while each runs the engine; the latter goes on when another one
    does its work."""

    log: Path
    workers: list[subprocess.Popen[bytes]]
    paused_at: str = ""
    resumed: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def begun(self) -> list[tuple[int, str]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(int(process), cfg) for process, cfg in map(str.split, lines)]

    def of(self, worker: int) -> list[str]:
        return [cfg for process, cfg in self.begun() if process == self.workers[worker].pid]

    def run(self) -> None:
        for number, sent in ((0, signal.SIGKILL), (1, signal.SIGSTOP)):
            before = len(self.of(number))
            while len(self.of(number)) <= before and not self.ended.wait(0.01):
                pass
            self.workers[number].send_signal(sent)
        self.paused_at = self.of(1)[-1]
        while self.paused_at not in self.of(2) and not self.ended.wait(0.05):
            pass
        self.resumed = not self.ended.is_set()
        self.workers[1].send_signal(signal.SIGCONT)


def test_a_killed_and_a_paused_worker_change_nothing(
    cluster: Cluster, runner: DaskRunner, host_engine: HostEngine, tmp_path: Path
) -> None:
    network = read_network(FILES["cfg"], FILES["weights"])
    graph = precision_graph(network, read_calibration(FILES["calibration.json"], network))
    model = Model(
        network=read_cfg(FILES["cfg"]), weights=FILES["weights"], calibration=FILES["calibration.json"]
    )
    latency, memory = probed_costs(network, graph, MeasuredTimer(model=model, engine=host_engine))
    told = tmp_path / "mpe"
    told.write_text(TOLD.format(engine=host_engine.executable, log=tmp_path / "log"))
    told.chmod(0o700)

    def search(name: str, engine: HostEngine, runner: DaskRunner | None) -> tuple[Search, int]:
        options = EngineOptions(threads=2)
        with Evaluator(engine, folder=tmp_path / name, runner=runner, options=options, **EVALUATED) as seen:
            found = Search(
                evaluator=seen,
                latency=latency,
                memory=memory,
                limits=Limits(max_drop=0.02, min_agreement=0.95),
                needed=lambda _: 0.0,
            )
            found.run()
            return found, seen.executed

    local, _ = search("local", host_engine, None)
    failures = Failures(tmp_path / "log", cluster.workers)
    thread = threading.Thread(target=failures.run)
    thread.start()
    try:
        remote, executed = search("remote", HostEngine(told), runner)
    finally:
        failures.ended.set()
        thread.join()
    assert failures.resumed
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert remote.points == local.points
    assert remote.front == local.front
    assert executed == len(remote.points)
    begun = Counter(cfg for process, cfg in failures.begun() if process != os.getpid())
    assert len(begun) == executed - 1  # fp32's outputs are known already
    survivor = Counter(failures.of(2))
    lost = {*failures.of(0), *failures.of(1)}
    assert set(survivor.values()) == {1}
    assert {cfg for cfg, times in begun.items() if times > 1} <= lost
    assert begun[failures.paused_at] > 1
    assert sum(begun.values()) - len(begun) <= 2 * 2  # two workers, each with two tasks at most
