"""Evaluations of assignments: each is run once, whatever happens between."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import DETECTOR, WEIGHTED
from PIL import Image
from search_stand_in import LAYERS, LossyEngine, write_model

from harness.accuracy.output_agreement import OutputNoise
from harness.config.darknet_cfg import PRECISIONS, parse_cfg
from harness.errors import ConfigurationError, HarnessError
from harness.runtimes.engine import EngineOptions
from harness.search.assignment import Assignment
from harness.search.comparison import relative_noise
from harness.search.evaluation import FILE_NAME, Evaluation, EvaluationFile
from harness.search.evaluator import Evaluator

FP32 = Assignment.uniform(range(LAYERS), "fp32")
ALONE = [FP32.changed({layer: precision}) for layer in range(LAYERS) for precision in ("int8", "fp16")]

precisions = st.fixed_dictionaries({layer: st.sampled_from(PRECISIONS) for layer in WEIGHTED})


class Interrupted(BaseException):
    """As Ctrl-C: no Exception."""


@pytest.fixture
def model(tmp_path: Path) -> dict[str, Any]:
    return write_model(tmp_path) | {"folder": tmp_path / "kept"}


@given(precisions, precisions)
def test_an_assignment_is_what_its_cfg_asks_for(precision: dict[int, str], other: dict[int, str]) -> None:
    assignment, cfg = Assignment(precision), parse_cfg(DETECTOR, "net.cfg")
    applied = assignment.applied(cfg)
    assert Assignment.of(applied) == assignment
    assert not any(layer.quantize for layer in applied.weighted)
    again = Assignment(other).applied(applied)
    assert again.text == Assignment(other).applied(cfg).text
    assert Assignment(other) == assignment.changed(other)
    assert (Assignment(other) == assignment) == (other == precision) == (again.text == applied.text)
    assert len({assignment, Assignment(dict(reversed(precision.items())))}) == 1


def test_an_assignment_has_only_known_layers_and_precisions() -> None:
    with pytest.raises(KeyError):
        FP32.changed({LAYERS: "int8"})
    with pytest.raises(ValueError, match="int4 is none of fp32"):
        FP32.changed({0: "int4"})


def test_figures_of_an_assignment(tmp_path: Path, model: dict[str, Any]) -> None:
    engine = LossyEngine(tmp_path, lambda assignment: 0.15 if assignment[1] == "int8" else 0.0)
    with Evaluator(engine, **model) as evaluator:
        fp32, exact, lossy = evaluator.evaluate([FP32, FP32.changed({0: "int8"}), FP32.changed({1: "int8"})])
        assert evaluator.metric == "top1"
    assert fp32 == exact == Evaluation(similarity=1.0, agreement=1.0, noise=0.0, accuracy=1.0)
    assert (lossy.agreement, lossy.accuracy) == (0.75, 0.75)  # 0.6 is read as class 0
    brightnesses = np.array([0.2, 0.4, 0.6, 0.8])
    assert lossy.noise == pytest.approx(4 * 0.15**2 / (4 * 0.5**2 + (brightnesses**2).sum()), rel=1e-5)
    assert lossy.similarity == pytest.approx(1 / (1 + lossy.noise))
    assert fp32.sqnr_db is None
    assert lossy.sqnr_db == pytest.approx(-10 * np.log10(lossy.noise))


def test_fp32_runs_once_for_all_assignments(tmp_path: Path, model: dict[str, Any]) -> None:
    engine = LossyEngine(tmp_path)
    with Evaluator(engine, **model) as evaluator:
        for assignment in [*ALONE, FP32, ALONE[0]]:
            evaluator.evaluate([assignment])
    assert engine.runs.count(FP32) == 2  # batches
    assert all(engine.runs.count(assignment) == 2 for assignment in ALONE)


def test_nothing_is_run_for_kept_evaluations(tmp_path: Path, model: dict[str, Any]) -> None:
    with Evaluator(LossyEngine(tmp_path, len), **model) as evaluator:
        first = evaluator.evaluate([FP32, *ALONE])
        assert evaluator.executed == len(ALONE) + 1
    engine = LossyEngine(tmp_path, len)
    with Evaluator(engine, **model) as evaluator:
        assert evaluator.evaluate([*reversed(ALONE), FP32]) == first[::-1]
        assert evaluator.executed == 0
    assert engine.runs == []


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("end", [1, 4, 7, 10])
def test_an_interrupted_run_repeats_nothing(
    tmp_path: Path, model: dict[str, Any], jobs: int, end: int
) -> None:
    options = EngineOptions(threads=jobs)
    left = threading.Semaphore(end + 1)  # batches, without fp32's

    def count(assignment: Assignment) -> None:
        if assignment != FP32 and not left.acquire(blocking=False):
            raise Interrupted

    first = LossyEngine(tmp_path, hash)
    first.before = count
    with Evaluator(first, options=options, **model) as evaluator:
        with pytest.raises(Interrupted):
            evaluator.evaluate([*ALONE, *ALONE[:1], FP32.changed({0: "int8", 1: "int8"})])
        complete = {assignment for assignment in first.runs if first.runs.count(assignment) == 2} - {FP32}
        assert evaluator.executed == len(complete)
    second = LossyEngine(tmp_path, hash)
    with Evaluator(second, options=options, **model) as evaluator:
        found = evaluator.evaluate(ALONE)
    assert set(second.runs) - {FP32} == set(ALONE) - complete
    whole = LossyEngine(tmp_path, hash)
    with Evaluator(whole, **model | {"folder": tmp_path / "another"}) as evaluator:
        assert evaluator.evaluate(ALONE) == found


def test_several_evaluations_run_at_once(tmp_path: Path, model: dict[str, Any]) -> None:
    engine = LossyEngine(tmp_path)
    together = threading.Barrier(3, timeout=60)
    engine.before = lambda assignment: assignment != FP32 and together.wait()
    with Evaluator(engine, options=EngineOptions(threads=3), **model) as evaluator:
        evaluator.evaluate(ALONE)
    assert len(engine.runs) == 2 * (len(ALONE) + 1)


@pytest.mark.parametrize(
    "what", ["weights", "picture", "label", "engine", "cfg", "options", "limit", "processor"]
)
def test_everything_that_determines_an_evaluation_is_in_its_key(
    tmp_path: Path, model: dict[str, Any], what: str
) -> None:
    with Evaluator(LossyEngine(tmp_path), **model) as evaluator:
        evaluator.evaluate(ALONE)
    match what:
        case "weights":
            model["weights"].write_bytes(b"another" + model["weights"].read_bytes()[7:])
        case "picture":
            Image.new("RGB", (4, 4)).save(tmp_path / "data" / "bright" / "3.png")
        case "label":
            (tmp_path / "data" / "bright").rename(tmp_path / "data" / "0")
        case "engine":
            (tmp_path / "mpe").write_text("another engine")
        case "cfg":
            model["cfg"].write_text(model["cfg"].read_text().replace("[softmax]", "[softmax]\ngroups=1"))
        case "options":
            model["options"] = EngineOptions(bn_epsilon=1e-6)
        case "limit":
            model["limit"] = 3
    engine = LossyEngine(tmp_path)
    if what == "processor":
        engine.best = "avx512_vnni"
    with Evaluator(engine, **model) as evaluator:
        evaluator.evaluate(ALONE)
        assert evaluator.executed == len(ALONE)


def test_what_determines_no_evaluation_is_not_in_its_key(tmp_path: Path, model: dict[str, Any]) -> None:
    with Evaluator(LossyEngine(tmp_path), **model) as evaluator:
        evaluator.evaluate(ALONE)
    model["cfg"].write_text(model["cfg"].read_text().replace("filters", "fp16=1\nfilters"))
    model["calibration"].write_text('{"tensors": [1]}')  # for int8 only
    for path in (tmp_path / "data" / "bright").iterdir():
        path.rename(path.with_name(f"{path.stem}-renamed.png"))
    with Evaluator(LossyEngine(tmp_path), options=EngineOptions(threads=2), **model) as evaluator:
        evaluator.evaluate(ALONE)
        assert evaluator.executed == len(ALONE) / 2
        evaluator.evaluate([assignment for assignment in ALONE if "fp16" in assignment.values()])
        assert evaluator.executed == len(ALONE) / 2


def test_int8_needs_ranges(tmp_path: Path, model: dict[str, Any]) -> None:
    engine = LossyEngine(tmp_path)
    with Evaluator(engine, **model | {"calibration": None}) as evaluator:
        with pytest.raises(ConfigurationError, match="int8 needs recorded ranges"):
            evaluator.evaluate(ALONE)
        assert engine.runs == []
        evaluator.evaluate([evaluator.uniform("fp16")])


def test_outputs_that_are_not_finite_are_lost(tmp_path: Path, model: dict[str, Any]) -> None:
    lost = {"int8": float("inf"), "fp16": float("nan")}
    engine = LossyEngine(tmp_path, lambda assignment: lost.get(assignment[0], 0.0))
    with Evaluator(engine, **model) as evaluator:
        found = evaluator.evaluate([FP32, FP32.changed({0: "int8"}), FP32.changed({0: "fp16"})])
    signal = 4 * 0.5**2 + 0.2**2 + 0.4**2 + 0.6**2 + 0.8**2
    assert [each.noise for each in found] == pytest.approx([0.0, *2 * [1 - 4 * 0.5**2 / signal]], rel=1e-5)


def test_each_output_counts_in_relation_to_its_own_values() -> None:
    def output(signal: float, noise: float) -> OutputNoise:
        return OutputNoise(name="", shape=(1,), signal=signal, noise=noise)

    assert relative_noise([output(1.0, 0.1), output(1e6, 1e3)]) == pytest.approx((0.1 + 0.001) / 2)
    assert relative_noise([output(1.0, 0.1), output(0.0, 0.0)]) == pytest.approx(0.1)
    assert relative_noise([output(0.0, 0.0)]) == 0.0


def test_a_file_that_is_no_database_gives_a_hint(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("no database, but long enough to be read as one" * 100)
    with pytest.raises(HarnessError, match=FILE_NAME) as caught:
        EvaluationFile(tmp_path)
    assert "Remove the file" in caught.value.hint


def test_any_number_of_evaluations_is_found(tmp_path: Path) -> None:
    kept = EvaluationFile(tmp_path)
    evaluations = {
        str(number): Evaluation(similarity=0.5, agreement=number / 600, noise=0.0) for number in range(600)
    }
    for key, evaluation in evaluations.items():
        kept.add(key, evaluation)
    changed = replace(evaluations["7"], accuracy=0.5)
    kept.add("7", changed)
    assert kept.find([*evaluations, "absent"]) == evaluations | {"7": changed}
    kept.close()
