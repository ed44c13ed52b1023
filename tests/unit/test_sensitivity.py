"""Sensitivities of layers, and the command that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from search_stand_in import LAYERS, Loss, LossyEngine, write_model

from harness import cli
from harness.runtimes import engine as runtime
from harness.search import sensitivity
from harness.search.assignment import Assignment
from harness.search.evaluator import Evaluator
from harness.search.sensitivity import Sensitivity, measure

INT8 = (0.02, 0.15, 0.05)  # lost by each layer; above 0.1 one of four pictures changes its class


def adding(assignment: Assignment) -> float:
    """Losses of layers add up; fp16 loses a tenth of int8."""
    parts = {"fp32": 0.0, "fp16": 0.1, "int8": 1.0}
    return sum(INT8[layer] * parts[precision] for layer, precision in assignment.items())


def together(assignment: Assignment) -> float:
    """Layer 2 loses much in int8, but only where layer 1 is int8, too."""
    int8 = [precision == "int8" for precision in assignment.values()]
    return 0.12 * int8[0] + 0.1 * int8[1] + 0.2 * (int8[1] and int8[2])


def measured(folder: Path, loss: Loss, precisions: list[str], steps: int = LAYERS) -> Sensitivity:
    model = write_model(folder)
    with Evaluator(LossyEngine(folder, loss), folder=folder, **model) as evaluator:
        return measure(evaluator, precisions, steps)


def layers(rows: tuple[sensitivity.LayerRow, ...]) -> list[tuple[int, str]]:
    return [(row.layer, row.precision) for row in rows]


def test_the_largest_losses_and_gains_come_first(tmp_path: Path) -> None:
    found = measured(tmp_path, adding, ["fp16", "int8"])
    assert (found.low, found.high) == ("int8", "fp16")
    assert list(found.uniform) == ["fp32", "int8", "fp16"]
    assert layers(found.alone) == [
        *((1, "int8"), (2, "int8"), (0, "int8"), (1, "fp16"), (2, "fp16"), (0, "fp16"))
    ]
    assert layers(found.raised) == [(1, "fp16"), (2, "fp16"), (0, "fp16")]
    assert [row.evaluation.agreement for row in found.alone] == [0.75, *5 * [1.0]]


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_layers_of_a_single_low_precision_are_raised_to_fp32(tmp_path: Path, precision: str) -> None:
    found = measured(tmp_path, adding, [precision])
    assert (found.low, found.high) == (precision, "fp32")
    assert {row.precision for row in found.alone} == {precision}
    assert {row.precision for row in (*found.raised, *found.path)} <= {"fp32"}
    assert len(found.alone) == len(found.raised) == LAYERS


@pytest.mark.parametrize("steps", [0, 2, LAYERS, LAYERS + 1])
def test_a_path_ends_after_its_steps_or_with_the_last_layer(tmp_path: Path, steps: int) -> None:
    path = measured(tmp_path, adding, ["int8"], steps).path
    assert layers(path) == [(1, "fp32"), (2, "fp32"), (0, "fp32")][:steps]
    similarities = [row.evaluation.similarity for row in path]
    assert similarities == sorted(similarities)


@pytest.mark.parametrize(("rescored", "path"), [(2, [1, 0, 2]), (1, [1, 2, 0])])
def test_a_path_evaluates_promising_layers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rescored: int, path: list[int]
) -> None:
    monkeypatch.setattr(sensitivity, "RESCORED", rescored)
    found = measured(tmp_path, together, ["int8"])
    assert [row.layer for row in found.raised] == [1, 2, 0]
    assert [row.layer for row in found.path] == path
    assert found.path[-1].evaluation.similarity == 1


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    model = write_model(tmp_path)
    monkeypatch.setattr(runtime, "host_engine", lambda algorithm: LossyEngine(tmp_path, adding))
    options = ["cfg", "weights", "dataset", "calibration"]
    named = [word for key in options for word in (f"--{key}", str(model[key]))]
    return ["sensitivity", *named, "--results", str(tmp_path / "results")]


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main([*words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_document_of_the_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    document = printed(words, capsys)
    assert (document["images"], document["accuracy_metric"], document["low"]) == (4, "top1", "int8")
    assert [row["accuracy_change"] for row in document["uniform"]] == [0, -0.25, 0]
    first, *_, last = document["layers"]
    assert first == {
        "index": 1,
        "name": "layer1",
        "kind": "pointwise",
        "precision": "int8",
        "similarity": pytest.approx(0.9607, abs=1e-4),
        "agreement": 0.75,
        "accuracy": 0.75,
        "accuracy_change": -0.25,
        "ms": 0.002,
        "sqnr_db": pytest.approx(13.88, abs=0.01),
        "gain": pytest.approx(0.0679, abs=1e-4),
    }
    assert (last["index"], last["precision"], last["gain"]) == (0, "fp16", None)
    assert [row["name"] for row in document["path"]] == ["layer1", "layer2", "layer0"]
    again = printed(words, capsys)
    assert again == document | {"executed": 0}
    assert document["executed"] > 0


def test_the_tables_of_the_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines() if "layer" in line and "int8" in line]
    assert [row[1] for row in rows if row[0].isdigit()] == ["layer1", "layer2", "layer0"]
    assert "█" * 20 in shown
    assert "lost similarity" in shown


def test_the_page_of_the_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words, "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert '<td class="text">layer1</td>' in page
    assert cli.main([*words, "--format", "html", "--json"]) == 2
    assert "--json and --format html exclude each other" in capsys.readouterr().out


def test_ranges_are_recorded_once_on_other_pictures(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = words.index("--calibration")
    del words[place : place + 2]
    document = printed([*words, "--limit", "3"], capsys)
    recorded = Path(document["calibration"])
    assert recorded.parent == tmp_path / "results"
    assert json.loads(recorded.read_text())["images"] == 1
    assert document["calibration_overlap"] == 0
    assert printed([*words, "--limit", "3"], capsys) == document | {"executed": 0}
    assert printed([*words, "--limit", "4"], capsys)["calibration_overlap"] == 4


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--precision", "fp16"], "--calibration has no effect without int8"),
        (["--mean", "0"], "--mean applies to --model"),
        (["--labels", "l", "--dataset", "data/bright"], "--labels has no effect: data/bright has no classes"),
        (["--split", "val"], "only a data.yaml has splits"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str],
    more: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*words, *more]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "more", [["--steps", "-1"], ["--limit", "0"], ["--precision", "int16"], ["--policy", "int8"]]
)
def test_wrong_options_are_refused(words: list[str], more: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*words, *more])
    assert caught.value.code == 2
