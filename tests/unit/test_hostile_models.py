"""The campaign of damaged models (tests/faults/hostile_models.py): what it finds, and a short run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hostile_models import FLAT, MOST_SECONDS, Campaign, Outcome, judged, trial
from limited_process import run_limited
from mutations import Mutator, structure_of
from onnx import ModelProto, numpy_helper
from onnx_models import model_of, node
from qdq_copy import qdq_copy

import harness.importing.model
from harness.errors import ConfigurationError

MIB = 1 << 20


def spin() -> None:
    while True:
        pass


def fill() -> int:
    return len(bytearray(b"1" * (200 * MIB)))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def outcome_of(work: Callable[[], object], tmp_path: Path) -> Outcome:
    ended = run_limited(work, seconds=1, address_bytes=1 << 30)
    return judged(ended, tmp_path / "model.onnx", tmp_path / "out")


def test_a_process_has_its_own_peak_and_time() -> None:
    small = run_limited(time.process_time_ns, seconds=5, address_bytes=1 << 30)
    large = run_limited(fill, seconds=5, address_bytes=1 << 30)
    assert (small.signal, large.signal, large.report) == (0, 0, 200 * MIB)
    assert 350 * MIB < large.peak_bytes < 450 * MIB  # two copies
    assert small.peak_bytes < 20 * MIB  # whatever this process has


def test_a_process_has_no_more_memory_than_it_is_given() -> None:
    assert run_limited(fill, seconds=5, address_bytes=100 * MIB).report is None


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (spin, "too slow"),
        (kill, "crash"),
        (lambda: {"exception": "KeyError: 'x'"}, "exception"),
        (lambda: {"refused": "no name"}, "no file's name"),
        (lambda: {"refused": "model.onnx: damaged"}, "refused"),
        (lambda: {"imported": ["a.cfg"]}, "files"),
        (lambda: {"imported": []}, "imported"),
    ],
)
def test_every_end_of_an_import_is_judged(work: Callable[[], object], kind: str, tmp_path: Path) -> None:
    assert outcome_of(work, tmp_path).kind == kind


def test_files_that_a_failed_import_leaves_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.weights").write_bytes(b"")
    assert outcome_of(lambda: {"refused": "model.onnx: damaged"}, tmp_path).kind == "files"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of([node("Relu", "x")]).SerializeToString())
    return path


def test_what_an_import_raises_is_judged(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trial(model, tmp_path / "good")[0].kind == "imported"

    def fails(graph: object) -> None:
        raise KeyError("of a bug")

    monkeypatch.setattr(harness.importing.model, "simplify", fails)
    outcome, ended = trial(model, tmp_path / "out")
    assert outcome.kind == "exception"
    assert outcome.signature().startswith("exception: KeyError: 'of a bug' at harness/importing/model.py")
    assert ended.seconds < MOST_SECONDS


def test_the_files_of_findings_are_kept(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(graph: object) -> None:
        raise ConfigurationError("no word about the file")

    monkeypatch.setattr(harness.importing.model, "simplify", refused)
    monkeypatch.setattr(harness.importing.model, "_named", nullcontext)
    (tmp_path / "work").mkdir()
    tally = Campaign(tmp_path / "work", tmp_path / "keep", seed=1, mutations=30).run(model)
    assert tally.mutations == 30 == tally.imported + tally.refused + tally.findings.total()
    assert tally.findings["no file's name: no word about the file"] >= 3
    kept = [path for path in (tmp_path / "keep").iterdir() if path.suffix == ".onnx"]
    assert len(kept) == sum(min(3, number) for number in tally.findings.values())


def test_mutations_are_those_of_their_seed_and_of_all_kinds(model: Path) -> None:
    content = model.read_bytes()
    found = [Mutator(content, 1).mutation(number) for number in range(300)]
    assert found == [Mutator(content, 1).mutation(number) for number in range(300)]
    assert found != [Mutator(content, 2).mutation(number) for number in range(300)]
    assert len({kind for one in found for kind in one.kinds}) == 10
    assert sum(one.data != content for one in found) > 270


def test_large_constants_are_no_structure() -> None:
    constants = {"w": np.arange(1000, dtype="f4")}
    content = model_of([node("Add", "x w")], (1, 1000), constants).SerializeToString()
    sizes = [end - begin for begin, end in structure_of(content)]
    assert sum(sizes) == len(content) - 4000
    assert len(sizes) == 2


def test_the_copy_with_pairs_reads_integers() -> None:
    weights = {"w": np.ones((3, 4, 1, 1), "f4")}
    model = ModelProto.FromString(
        qdq_copy(model_of([node("Conv", "x w")], constants=weights).SerializeToString())
    )
    assert [one.op_type for one in model.graph.node] == [
        "DequantizeLinear",
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
    ]
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert (stored["w_q"] == 127).all()
    assert "w" not in stored


@pytest.mark.data
def test_a_short_campaign_finds_nothing(shared_data: Path, tmp_path: Path) -> None:
    tally = Campaign(tmp_path, tmp_path / "keep", seed=5, mutations=60).run(shared_data / "import" / FLAT)
    assert not tally.findings
    assert tally.imported > 5
    assert tally.refused > 5
