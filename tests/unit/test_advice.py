"""What `harness advise` chooses, for any rows and limits, and that it says what it does not know."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import emulated, row

from harness.advice.choice import Advice, advise, pictures_to_tell
from harness.advice.document import document
from harness.advice.limits import Check, Limits
from harness.advice.proposals import proposals
from harness.advice.words import answer, unknowns
from harness.config.import_options import ImportOptions
from harness.config.sweep import Model
from harness.measure.intervals import mean_time, ratio_interval, speed_interval
from harness.report.comparison import compared_with_fp32
from harness.report.result import Resampled, Row

MIB = 1 << 20
ANY = Limits(max_drop=1.0, min_agreement=0.0)


def timed(policy: str, fps: float, noise: float = 0.001, **more: Any) -> Row:
    """A row with this speed; its rounds differ by the fraction `noise`."""
    time = mean_time([[1e9 / fps * (1 + noise * number)] * 2 for number in (-1, 0, 1)])
    assert time
    low, high = speed_interval(time)
    return row(policy, fps=fps, fps_interval=(1e9 * low, 1e9 * high), mean_time=time, **more)


def scored(line: Row, accuracy: float, scatter: float, images: int = 100) -> Row:
    """The row with an accuracy that differs from another's by `scatter` (a standard error)."""
    values = accuracy + scatter * np.random.default_rng(len(line.policy)).standard_normal(50)
    return replace(
        line,
        accuracy=accuracy,
        resampled=Resampled("same", values.tolist()),
        scores={"images": images},
    )


def predicted(policy: str, fps: float, **more: Any) -> Row:
    ms = 1e3 / fps
    interval = {"predicted_low_ms": 0.9 * ms, "predicted_high_ms": 1.1 * ms}
    known = {"predicted_ms": ms, "predicted_fps": fps, "prediction_error": 0.1, "prediction_validated": True}
    return emulated(policy, fps=987654.0, **(interval | known | more))


def advice(limits: Limits, *rows: Row) -> Advice:
    return advise(compared_with_fp32(rows), limits)


def recommended(limits: Limits, *rows: Row) -> str | None:
    found = advice(limits, *rows).recommended
    return found.row.policy if found else None


def words(found: Advice) -> str:
    return " ".join([*answer(found), *unknowns(found)])


FIGURES = st.floats(1.0, 1000.0)


@st.composite
def rows_of_a_sweep(draw: st.DrawFn) -> list[Row]:
    """fp32 and others, with any figures, some of them unknown."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        line = timed(f"p{number}" if number else "fp32", draw(FIGURES), draw(st.floats(0.0, 0.3)))
        peak = draw(st.none() | st.integers(1 * MIB, 64 * MIB))
        line = replace(line, peak_rss_bytes=peak)
        line = scored(line, draw(st.floats(0.5, 1.0)), draw(st.floats(0.0, 0.05)))
        if draw(st.booleans()) and number:
            line = replace(line, accuracy=None, accuracy_metric=None, resampled=None)
        found.append(line)
    return compared_with_fp32(found)


LIMITS = st.builds(
    Limits,
    max_drop=st.floats(0.0, 0.5),
    min_fps=st.none() | FIGURES,
    max_memory=st.none() | st.integers(1 * MIB, 64 * MIB).map(float),
)


@settings(max_examples=40)
@given(rows_of_a_sweep(), LIMITS)
def test_the_recommended_row_meets_all_limits_and_the_fastest_that_does_is_not_surely_faster(
    rows: list[Row], limits: Limits
) -> None:
    found = advise(rows, limits)
    meeting = [each for each in found.rows if each.meets]
    if not meeting:
        assert found.recommended is None
        return
    chosen, fastest = found.recommended, meeting[0].row
    assert chosen in meeting
    assert chosen.row.mean_time
    assert fastest.mean_time
    # Speeds are compared with three digits.
    assert ratio_interval(fastest.mean_time, chosen.row.mean_time)[0] < 1.01
    assert found.nearest == []


@settings(max_examples=40)
@given(rows_of_a_sweep(), LIMITS, st.randoms())
def test_the_order_of_rows_does_not_matter(rows: list[Row], limits: Limits, random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert advise(rows, limits) == advise(shuffled, limits)


@settings(max_examples=40)
@given(rows_of_a_sweep(), LIMITS)
def test_looser_limits_never_leave_without_a_row(rows: list[Row], limits: Limits) -> None:
    looser = replace(limits, max_drop=1.0, min_fps=limits.min_fps and limits.min_fps / 2)
    if advise(rows, limits).recommended:
        assert advise(rows, looser).recommended


@settings(max_examples=40)
@given(rows_of_a_sweep(), LIMITS)
def test_no_row_that_misses_one_limit_alone_comes_nearer_to_it(rows: list[Row], limits: Limits) -> None:
    found = advise(rows, limits)
    for near in found.nearest:
        assert not near.judged.unknown
        (check,) = [check for check in near.judged.missed if check.kind == near.kind]
        for each in found.rows:
            if not each.unknown and [missed.kind for missed in each.missed] == [near.kind]:
                assert each.missed[0].miss >= check.miss
                assert len(near.judged.missed) == 1


@settings(max_examples=40)
@given(rows_of_a_sweep(), LIMITS)
def test_every_advice_can_be_said_and_is_json(rows: list[Row], limits: Limits) -> None:
    found = advise(rows, limits)
    assert answer(found)
    told = document(found, answer(found), unknowns(found), proposals(found, None, "host"))
    json.dumps(told, allow_nan=False)
    assert len(told["rows"]) == len(rows)
    assert (told["recommendation"] is None) == (found.recommended is None)


@given(st.floats(0.0, 0.1), st.floats(0.0, 0.1), st.floats(0.001, 0.2), st.integers(20, 10_000))
def test_with_so_many_pictures_the_interval_ends_at_the_limit(
    loss: float, limit: float, reach: float, pictures: int
) -> None:
    check = Check(kind="loss", limit=limit, value=loss, interval=(loss - reach, loss + reach))
    needed = pictures_to_tell(check, pictures)
    if needed is None:
        assert loss == pytest.approx(limit, abs=1e-9)
    else:
        assert reach * math.sqrt(pictures) == pytest.approx(abs(loss - limit) * math.sqrt(needed))


def test_three_limits_have_three_answers() -> None:
    rows = [
        scored(timed("fp32", 100), 0.9, 0),
        scored(timed("fp16", 150), 0.899, 0),
        scored(timed("int8", 300), 0.88, 0),
    ]
    assert recommended(Limits(max_drop=0), *rows) == "fp32"
    assert recommended(Limits(), *rows) == "fp16"
    assert recommended(Limits(max_drop=0.03, min_fps=200), *rows) == "int8"


def test_of_rows_as_fast_within_the_noise_the_smaller_is_taken() -> None:
    rows = [
        timed("fp32", 100, peak_rss_bytes=9 * MIB),
        timed("one", 201, 0.05, peak_rss_bytes=8 * MIB),
        timed("two", 200, 0.05, peak_rss_bytes=4 * MIB),
    ]
    found = advice(Limits(), *rows)
    assert found.recommended
    assert found.recommended.row.policy == "two"
    assert [each.row.policy for each in found.as_fast] == ["one"]
    assert "As fast within the noise: one in the engine, 1 thread." in words(found)


def test_of_rows_as_fast_one_that_surely_loses_more_is_not_taken() -> None:
    small = scored(timed("small", 200, 0.05, peak_rss_bytes=1 * MIB), 0.85, 0.001)
    rows = [scored(timed("fp32", 100), 0.9, 0.001), small, scored(timed("good", 201, 0.05), 0.9, 0.001)]
    assert recommended(ANY, *rows) == "good"


def test_a_row_is_not_as_fast_because_it_was_measured_badly() -> None:
    rows = [timed("fp32", 200, 0.001), timed("noisy", 100, 0.4, peak_rss_bytes=1 * MIB)]
    assert recommended(ANY, *rows) == "fp32"


def test_unknown_loss_is_no_answer_but_for_fp32() -> None:
    unknown: dict[str, Any] = {"accuracy": None, "accuracy_metric": None}
    found = advice(Limits(), timed("fp32", 100, **unknown), timed("int8", 300, **unknown))
    assert found.recommended
    assert found.recommended.row.policy == "fp32"
    (said,) = [line for line in unknowns(found) if line.startswith("Loss")]
    assert said.startswith("Loss: no accuracy was evaluated, so only fp32 meets a limit of it.")
    assert recommended(Limits(max_drop=1.0), timed("fp32", 100), timed("int8", 300, **unknown)) == "int8"
    found = advice(Limits(), timed("fp32", 100), timed("int8", 300, **unknown))
    assert "Loss of int8 in the engine, 1 thread: this cell has no accuracy." in unknowns(found)


def test_unknown_memory_meets_no_limit_of_memory() -> None:
    rows = [timed("fp32", 100), timed("int8", 300, peak_rss_bytes=None)]
    assert recommended(Limits(max_memory=8.0 * MIB), *rows) == "fp32"
    assert recommended(Limits(), *rows) == "int8"


def test_agreement_has_a_limit_of_its_own() -> None:
    rows = [
        timed("fp32", 100, accuracy=1.0, accuracy_metric="agreement"),
        timed("int8", 300, accuracy=0.985, accuracy_metric="agreement"),
    ]
    assert recommended(Limits(), *rows) == "int8"
    assert recommended(Limits(min_agreement=0.99), *rows) == "fp32"


def test_a_runtime_without_fp32_is_compared_with_the_engines() -> None:
    rows = [
        scored(timed("fp32", 100), 0.9, 0.01),
        scored(timed("as-is", 300, runtime="litert"), 0.8, 0.01),
    ]
    found = advice(Limits(), *rows)
    lossy = next(each for each in found.rows if each.row.runtime == "litert")
    assert lossy.loss.value == pytest.approx(0.1)
    assert lossy.loss.interval
    assert found.recommended
    assert found.recommended.row.policy == "fp32"


def test_a_loss_within_the_noise_says_how_many_pictures_would_tell() -> None:
    rows = [scored(timed("fp32", 100), 0.9, 0.0), scored(timed("int8", 300), 0.896, 0.01, images=50)]
    found = advice(Limits(), *rows)
    assert found.recommended
    assert found.recommended.row.policy == "int8"
    (doubt,) = [line for line in unknowns(found) if line.startswith("Whether")]
    assert doubt.startswith(
        "Whether int8 in the engine, 1 thread loses more than 0.50 points: the interval on 50"
    )
    needed = pictures_to_tell(found.recommended.loss, 50)
    assert needed
    assert 15_000 < needed < 25_000  # 50 x (1.96 % / 0.1 %)²
    assert "of the same kind would tell" in doubt


def test_pictures_without_any_difference_are_no_certainty() -> None:
    rows = [
        scored(timed("fp32", 100, accuracy_metric="top1"), 0.9, 0.0, images=60),
        scored(timed("int8", 300, accuracy_metric="top1"), 0.9, 0.0, images=60),
    ]
    found = advice(Limits(), *rows)
    assert found.recommended
    assert (found.recommended.row.policy, found.recommended.loss.sure) == ("int8", None)
    assert (
        "Whether int8 in the engine, 1 thread loses more than 0.50 points: no difference was seen on 60 "
        "pictures; about 600 without any would exclude it."
    ) in unknowns(found)


def test_nothing_meets_the_limits_and_the_nearest_rows_say_by_how_much() -> None:
    rows = [
        scored(timed("fp32", 100, peak_rss_bytes=9 * MIB), 0.9, 0),
        scored(timed("int8", 300, peak_rss_bytes=4 * MIB), 0.88, 0),
    ]
    found = advice(Limits(min_fps=200, max_memory=5.0 * MIB), *rows)
    assert found.recommended is None
    assert [(near.kind, near.judged.row.policy) for near in found.nearest] == [
        ("loss", "int8"),
        ("speed", "fp32"),
        ("memory", "fp32"),
    ]
    said = answer(found)
    assert said[0] == "No result meets at least 200 FPS, at most 5 MiB, at most 0.5 points of accuracy lost."
    assert "loses 2.00 points, 1.50 more than allowed; it meets the other limits." in said[1]
    assert "reaches 100 of 200 FPS (50 %), and needs 9.00 MiB, 4.00 MiB more than allowed." in said[2]


def test_a_policy_that_loses_too_much_leads_to_search_repair_and_training() -> None:
    rows = [scored(timed("fp32", 100), 0.9, 0), scored(timed("int8", 300), 0.8, 0)]
    found = advice(Limits(max_drop=0.01, min_fps=50), *rows)
    model = Model(
        name="m",
        cfg=Path(),
        weights=Path(),
        source=Path("a b.onnx"),
        import_options=ImportOptions(mean=(1.0, 2.0, 3.0), colors="bgr"),
        dataset=Path("coco"),
    )
    others, search, repair, train = proposals(found, model, "pi4")
    assert others.what.startswith(
        "other quantisations than int8 in the engine, 1 thread: TensorFlow Lite's, "
    )
    assert others.command == (
        "harness advise --model 'a b.onnx' --mean 1.0,2.0,3.0 --colors bgr --dataset coco --target pi4 "
        "--runtime litert --runtime mnn --runtime ncnn --max-drop 1 --min-agreement 98 --min-fps 50"
    )
    assert search.command == (
        "harness search --model 'a b.onnx' --mean 1.0,2.0,3.0 --colors bgr --dataset coco --target pi4 "
        "--max-drop 1 --min-agreement 98 --min-fps 50 --out found"
    )
    assert repair.command.startswith("harness repair --model 'a b.onnx' --mean 1.0,2.0,3.0 --colors bgr")
    assert train.command == (
        "harness finetune --model 'a b.onnx' --mean 1.0,2.0,3.0 --colors bgr --dataset coco --policy int8 "
        "--out trained"
    )
    assert proposals(found, None, "pi4")[1].command.startswith(
        "harness search --model MODEL --dataset DATASET"
    )


def test_quantisations_that_were_tried_are_not_proposed_again() -> None:
    rows = [scored(timed("fp32", 100), 0.9, 0), scored(timed("int8", 300), 0.8, 0)]
    failed = [timed("int8", 1, runtime=name, status="failed") for name in ("mnn", "ncnn")]
    found = advice(Limits(max_memory=64 * MIB), *rows, *failed)
    others = proposals(found, None, "pi4")[0]
    assert "ncnn" not in others.what
    assert "--target pi4 --runtime litert --max-memory 64 " in others.command
    both = scored(timed("tflite-16x8", 10, runtime="litert"), 0.9, 0)
    first = proposals(advice(Limits(), *rows, *failed, both), None, "pi4")[0]
    assert first.command.startswith("harness search")


def test_nothing_is_proposed_where_the_fastest_row_is_taken() -> None:
    found = advice(Limits(), timed("fp32", 100), timed("int8", 300))
    assert proposals(found, None, "pi4") == []


def test_a_model_with_precisions_of_its_own_is_not_searched() -> None:
    rows = [scored(timed("fp32", 100), 0.9, 0), scored(timed("as-is", 300), 0.8, 0)]
    assert [each.command for each in proposals(advice(Limits(), *rows), None, "pi4")] == [""]


def test_the_emulators_own_figures_are_never_shown() -> None:
    rows = [
        predicted("fp32", 10, peak_rss_bytes=876543210),
        predicted("int8", 30, peak_rss_bytes=876543210),
        emulated("unknown", fps=987654.0, prediction_unavailable_reason="LLVM is missing"),
    ]
    for limits in (Limits(), Limits(min_fps=1000, max_memory=1.0)):
        found = advice(limits, *rows)
        told = document(found, answer(found), unknowns(found), [])
        assert "987" not in (text := words(found) + json.dumps(told))
        assert "8765" not in text
        assert "Speed of unknown in the engine, 1 thread: LLVM is missing." in text
    assert "30.0 FPS predicted for pi4 (90 % interval 27.3 to 33.3)" in words(advice(Limits(), *rows))


def test_an_unvalidated_prediction_and_a_failed_cell_are_said() -> None:
    rows: Sequence[Row] = [
        predicted("fp32", 10, prediction_validated=False),
        emulated("int8", status="failed", error="mnn cannot read QDQ", runtime="mnn"),
    ]
    said = words(advice(Limits(), *rows))
    assert "UNVALIDATED" in said
    assert "failed digits int8 mnn 1 thread: mnn cannot read QDQ" in said


def test_a_speed_whose_interval_holds_the_limit_is_uncertain() -> None:
    said = words(advice(Limits(min_fps=9.5), predicted("fp32", 10)))
    assert "Whether fp32 in the engine, 1 thread reaches 9.5 FPS" in said
    assert "Whether" not in words(advice(Limits(min_fps=5), predicted("fp32", 10)))
