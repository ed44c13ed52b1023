"""`harness advise` on stored results, the sweep that it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cells_in_store import done, planned, scores

from harness import cli
from harness.advice.sweep import Request, runtimes_for, sweep_text
from harness.config.darknet_cfg import parse_cfg, read_cfg
from harness.config.sweep_file import read_sweep
from harness.measure.result import Outcome
from harness.store.store import Store

CFG = Path(__file__).resolve().parents[2] / "cfg"
DIGITS = CFG / "digits"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """fp32 and int8 on this machine, and on an emulated board where int8 failed."""
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="gone.yaml", fresh=False)
        emulated: dict[str, Any] = {"target": "pi4", "emulated": True}
        store.plan(
            run,
            [
                planned("fp32", "fp32 scores"),
                planned("int8", "int8 scores"),
                planned("board", "fp32 scores", policy="fp32", **emulated),
                planned("failed", "int8 scores", policy="int8", **emulated),
            ],
        )
        store.complete_cell(run, "fp32", done(fps=100.0, peak_rss_bytes=8 << 20))
        store.complete_cell(run, "int8", done(fps=300.0, peak_rss_bytes=4 << 20))
        store.complete_cell(run, "board", done(fps=1.0, predicted_ms=100.0))
        store.complete_cell(run, "failed", Outcome(status="failed", error="no luck"))
        for key, accuracy in (("fp32", 0.9), ("int8", 0.88)):
            store.complete_evaluation(run, f"{key} scores", "accuracy", scores(top1=accuracy))
    return tmp_path


def advise(*words: object) -> int:
    try:
        return cli.main(["advise", *map(str, words)])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("limits", "policy"), [(["--max-drop", "2.5"], "int8"), ([], "fp32"), (["--max-memory", "9"], "fp32")]
)
def test_results_are_judged_by_the_limits(
    results: Path, capsys: pytest.CaptureFixture[str], limits: list[str], policy: str
) -> None:
    assert advise(results, "--target", "host", "--json", *limits) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommendation"]["policy"] == policy
    assert [row["policy"] for row in found["rows"]] == ["int8", "fp32"]


def test_every_board_has_an_answer_and_its_failures_are_said(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advise(results) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "m on host: at most 0.5 points of accuracy lost Take fp32 in the engine" in said
    assert "m on pi4 (emulated)" in said
    assert "10.0 FPS predicted for pi4" in said
    assert "failed m int8 1 thread: no luck" in said
    assert "harness search --model MODEL --dataset DATASET --target host --max-drop 0.5" in said


def test_limits_that_nothing_meets_have_a_status_and_what_comes_nearest(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advise(results, "--target", "host", "--min-fps", "1e6", "--json") == 10
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["recommendation"] is None
    assert [(near["limit"], near["row"]) for near in found["nearest"]] == [("speed", 1), ("loss", 0)]
    assert "no result meets the limits" in printed.err


def test_without_any_result_the_causes_are_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        store.plan(run, [planned("fp32")])
        store.complete_cell(run, "fp32", Outcome(status="failed", error="no compiler"))
    assert advise(tmp_path) == 6
    printed = capsys.readouterr()
    assert "no compiler" in printed.err
    assert "No cell has a result." in printed.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "results, or a model and --target, are required"),
        (["--cfg", DIGITS / "digits.cfg", "--weights", DIGITS / "digits.weights"], "--target"),
        (["RESULTS", "--dataset", DIGITS / "data"], "--dataset has no effect with RESULTS"),
        (["RESULTS", "--mean", "1"], "--mean has no effect with RESULTS"),
        (["RESULTS", "--target", "pi5"], "no result is of target pi5"),
        (
            ["--split", "val", "--model", "m.onnx", "--target", "pi4"],
            "--split has no effect without --dataset",
        ),
        (["nowhere"], "no results"),
        (["RESULTS", "--max-drop", "101"], "--max-drop"),
    ],
)
def test_wrong_usage_is_one_error(
    results: Path, capsys: pytest.CaptureFixture[str], words: list[object], said: str
) -> None:
    assert advise(*[results if word == "RESULTS" else word for word in words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert "Traceback" not in printed.err


def test_a_missing_data_set_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = ["--cfg", DIGITS / "digits.cfg", "--weights", DIGITS / "digits.weights"]
    out = tmp_path / "out"
    assert advise(*network, "--target", "host", "--dataset", tmp_path / "no", "--results", out) == 2
    assert str(tmp_path / "no") in capsys.readouterr().err
    assert not out.exists()


def test_the_sweep_is_one_that_can_be_run_by_hand(tmp_path: Path) -> None:
    request = Request(
        cfg=DIGITS / "digits.cfg",
        weights=DIGITS / "digits.weights",
        target="pi",
        dataset=DIGITS / "data",
        resize="stretch",
        limit=7,
        threads=(1, 4),
    )
    file = tmp_path / "sweep.yaml"
    file.write_text(sweep_text(request, read_cfg(request.cfg)))
    sweep = read_sweep(file)
    assert [policy.name for policy in sweep.policies] == ["fp32", "fp16", "int8-dynamic", "int8"]
    assert sweep.threads == (1, 4)
    assert "litert" not in sweep.runtimes
    assert {"engine", "onnxruntime"} < set(sweep.runtimes)
    (model,) = sweep.models
    assert (model.limit, model.resize) == (7, "stretch")
    assert model.dataset
    assert model.dataset.samefile(DIGITS / "data")
    (target,) = sweep.targets
    assert target.name == "pi4"


@pytest.mark.parametrize(
    ("calibration", "more"), [(None, ["tflite-full-integer", "tflite-16x8"]), ("digits.calibration.json", [])]
)
def test_the_quantisations_of_tensorflow_lite_need_pictures(
    calibration: str | None, more: list[str], tmp_path: Path
) -> None:
    request = Request(
        cfg=DIGITS / "digits.cfg",
        weights=DIGITS / "digits.weights",
        target="host",
        dataset=DIGITS / "data",
        calibration=DIGITS / calibration if calibration else None,
        runtimes=("engine", "litert"),
    )
    file = tmp_path / "sweep.yaml"
    file.write_text(sweep_text(request, read_cfg(request.cfg)))
    names = [policy.name for policy in read_sweep(file).policies]
    assert names == ["fp32", "fp16", "int8-dynamic", "int8", *more]


def test_without_pictures_there_is_no_int8_that_needs_ranges(tmp_path: Path) -> None:
    request = Request(cfg=DIGITS / "digits.cfg", weights=DIGITS / "digits.weights", target="host")
    file = tmp_path / "sweep.yaml"
    file.write_text(sweep_text(request, read_cfg(request.cfg)))
    assert [policy.name for policy in read_sweep(file).policies] == ["fp32", "fp16", "int8-dynamic"]


def test_a_model_with_precisions_of_its_own_keeps_them() -> None:
    text = "[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=4\nint8=1\nquantize=1\n"
    request = Request(cfg=Path("m.cfg"), weights=Path("m.weights"), target="host")
    assert "policies:\n- fp32\n- as-is\n" in sweep_text(request, parse_cfg(text, "m.cfg"))


def test_a_tensorflow_lite_file_runs_in_litert_too(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(b"\x1c\0\0\0TFL3")
    assert "litert" in runtimes_for(model)


@pytest.mark.parametrize("stem", ["a b", "-x", "é", "..."])
def test_any_file_name_gives_a_name_of_a_model(stem: str, tmp_path: Path) -> None:
    cfg = tmp_path / f"{stem}.cfg"
    cfg.write_bytes((DIGITS / "digits.cfg").read_bytes())
    request = Request(cfg=cfg, weights=DIGITS / "digits.weights", target="host")
    file = tmp_path / "sweep.yaml"
    file.write_text(sweep_text(request, read_cfg(cfg)))
    assert read_sweep(file).models[0].cfg.samefile(cfg)
