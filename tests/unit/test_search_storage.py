"""Several processes that evaluate with one storage at the same time lose and repeat nothing."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from pathlib import Path

import pytest
from search_stand_in import LAYERS, LossyEngine, evaluate_in_turn, write_model

from harness.search import evaluator
from harness.search.assignment import Assignment
from harness.search.evaluation import Evaluation, EvaluationFile
from harness.store.store import Claim

ALL = 3**LAYERS
BATCHES = 2
KEPT = Evaluation(similarity=1.0, agreement=1.0, noise=0.0)


def runs(folder: Path) -> list[tuple[str, str]]:
    """Process and assignment of each batch, without those that only give fp32's outputs."""
    path = folder / "runs"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [(process, assignment) for process, assignment in map(str.split, lines)]
    return [(process, assignment) for process, assignment in found if set(assignment.split("-")) != {"fp32"}]


def test_four_processes_one_of_which_is_killed(tmp_path: Path) -> None:
    write_model(tmp_path)
    spawning = multiprocessing.get_context("spawn")
    processes = [
        spawning.Process(target=evaluate_in_turn, args=(tmp_path, seed, seed == 0)) for seed in range(4)
    ]
    try:
        processes[0].start()
        while not runs(tmp_path):
            assert processes[0].is_alive()
            time.sleep(0.01)
        for process in processes[1:]:
            process.start()
        while len(runs(tmp_path)) < ALL:
            assert all(process.is_alive() for process in processes)
            time.sleep(0.01)
        processes[0].kill()
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [-9, 0, 0, 0]
    finally:
        for process in processes:
            if process.pid and process.is_alive():
                process.kill()
    executed = [int((tmp_path / str(seed)).read_text()) for seed in (1, 2, 3)]
    assert sum(executed) == ALL
    batches = Counter(assignment for process, assignment in runs(tmp_path) if process != "0")
    assert batches == dict.fromkeys(batches, BATCHES)
    assert len(batches) == ALL - 1  # all but fp32


def test_a_claim_ends_with_its_result_its_release_or_its_process(tmp_path: Path) -> None:
    mine, other = EvaluationFile(tmp_path), EvaluationFile(tmp_path)
    assert [mine.claim("a"), other.claim("a"), other.claim("b")] == [Claim.MINE, Claim.BUSY, Claim.MINE]
    mine.add("a", KEPT)
    assert [mine.claim("a"), other.claim("a"), mine.claim("b")] == [Claim.SETTLED, Claim.SETTLED, Claim.BUSY]
    other.release()
    assert [mine.claim("b"), other.claim("b")] == [Claim.MINE, Claim.BUSY]
    mine.close()
    assert other.claim("b") is Claim.MINE
    other.close()


def test_what_another_process_evaluates_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And said, if it takes long."""
    monkeypatch.setattr(evaluator, "TELL_SECONDS", 0.0)
    model = write_model(tmp_path)
    engine = LossyEngine(tmp_path)
    fp32 = Assignment.uniform(range(LAYERS), "fp32")
    other = EvaluationFile(tmp_path / "kept")
    with evaluator.Evaluator(engine, folder=tmp_path / "kept", **model) as waits:
        key = waits._key(fp32)
        assert other.claim(key) is Claim.MINE

        def give_up(_seconds: float) -> None:
            other.add(key, KEPT)

        monkeypatch.setattr("harness.search.evaluator.time.sleep", give_up)
        assert waits.evaluate([fp32]) == [KEPT]
        assert waits.executed == 0
    other.close()
    assert engine.runs == []
    assert "waiting for another harness" in capsys.readouterr().err
