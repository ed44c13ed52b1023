"""Reports: marks, separate tables, and escaping."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells_in_store import done, planned, scores
from report_rows import emulated, report, row

from harness.measure.result import CellConditions, Outcome, TimePoint
from harness.report.data import data, write_report
from harness.report.html import html
from harness.report.markdown import markdown
from harness.report.notes import MARK
from harness.report.pareto import pareto_optimal
from harness.report.read import read_report
from harness.report.result import Report
from harness.report.tables import NOTHING, tables
from harness.report.terminal import print_report
from harness.store.store import Store

FIXED_KEYS = [
    "model",
    "policy",
    "target",
    "runtime",
    "threads",
    "status",
    "emulated",
    "fps",
    "p50_ms",
    "p90_ms",
    "peak_rss_bytes",
    "arena_bytes",
    "accuracy",
    "instructions",
    "digest",
]


def test_better_in_nothing_and_worse_in_something_is_not_optimal() -> None:
    rows = [
        row("slow", fps=50.0),
        row("fast", fps=200.0),
        row("accurate", accuracy=0.95),
        row("small", peak_rss_bytes=4 << 20, fps=10.0),
        row("worse", fps=199.0, accuracy=0.8),
    ]
    assert pareto_optimal(rows) == {1, 2, 3}


def test_figures_that_look_equal_in_the_table_are_equal() -> None:
    assert pareto_optimal([row(fps=100.1), row(fps=100.2), row(peak_rss_bytes=(5 << 20) + 100)]) == {0, 1, 2}


def test_only_cells_of_one_target_and_model_are_compared() -> None:
    rows = [
        row(fps=1000.0),
        row(target="pi4"),
        row(model="other"),
        emulated(target="host"),
        emulated("better", target="host", instructions=10**8),
        row(status="failed", fps=None),
    ]
    assert pareto_optimal(rows) == {0, 1, 2, 4}


def test_emulated_cells_are_judged_by_instructions_and_planned_memory() -> None:
    rows = [
        emulated("few", instructions=10**8, fps=1.0),
        emulated("many", fps=1000.0, peak_rss_bytes=1),
        emulated("small", arena_bytes=1 << 19),
    ]
    assert pareto_optimal(rows) == {0, 2}


def test_pictures_of_calibration_that_are_evaluated_are_noted_once_for_each_model() -> None:
    scores = {"map50": 0.5, "images": 128, "calibration_overlap": 32}
    rows = [row(), row("int8", scores=scores), row("mixed", scores=scores), row("int8", model="other")]
    notes = [note for table in tables(report(*rows)) for note in table.notes if "evaluated pictures" in note]
    [note] = notes
    assert "32 of the 128 evaluated pictures were also used for calibration" in note


def test_emulated_targets_have_tables_of_their_own() -> None:
    measured, other = tables(report(emulated(), row(), emulated("int8")))
    headings = [column.heading for column in measured.columns]
    assert "FPS" in headings
    assert "M instructions" not in headings
    assert [found.policy for found in other.rows] == ["fp32", "int8"]
    headings = [column.heading for column in other.columns]
    assert not {"FPS", "p50 ms", "peak MiB"} & set(headings)
    assert headings.index("predicted FPS") < headings.index("M instructions")
    assert not [heading for heading in headings if "wall" in heading]
    assert other.title == "s: pi4 (emulated)"
    assert any(note.startswith("EMULATED: nothing here was measured on a board") for note in other.notes)


def test_figures_have_three_digits() -> None:
    (table,) = tables(report(row(fps=1234.5, p50_ms=0.81, p90_ms=12.34, accuracy=None)))
    cells = dict(zip([column.heading for column in table.columns], table.cells(table.rows[0]), strict=True))
    assert (cells["FPS"], cells["p50 ms"], cells["p90 ms"]) == ("1,234", "0.81", "12.3")
    assert "mAP@0.5 %" not in cells


def test_unsteady_times_are_pointed_out() -> None:
    (table,) = tables(report(row(p90_ms=14.9), row(p90_ms=15.1)))
    assert any(note.startswith("Unsteady: in 1 of 2 cells") for note in table.notes)
    (table,) = tables(report(emulated(p90_ms=50.0)))
    assert not any(note.startswith("Unsteady") for note in table.notes)


def test_a_sustained_run_is_shown_over_time() -> None:
    points = [
        TimePoint(seconds=30.0 * n, fps=100.0 if n < 4 else 50.0, celsius=40.0 + n) for n in range(1, 9)
    ]
    sustained = report(row(time_series=points), row("int8"))
    (table,) = tables(sustained)
    shown = dict(zip([column.heading for column in table.columns], table.cells(table.rows[0]), strict=True))
    assert shown["minutes"] == "4.00"
    assert (shown["FPS at first"], shown["FPS at last"]) == ("100", "50.0")
    assert shown["°C at last"] == "48.0"
    assert shown["FPS over time"] == "███▅▅▅▅▅"
    assert table.cells(table.rows[1])[-2] == NOTHING
    (steps,) = tables(report(row(time_series=points, step="first")))
    assert "FPS over time" in [column.heading for column in steps.columns]


def test_percentiles_have_intervals_for_which_a_terminal_has_no_room(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known: dict[str, Any] = {
        f"p{percent}_interval_ms": (percent / 10, percent / 5) for percent in (50, 90, 99)
    }
    found = report(row(p99_ms=12.0, samples=120, **known), row("int8", p99_ms=13.0, samples=99))
    (table,) = tables(found)
    headings = [column.heading for column in table.columns]
    shown = [dict(zip(headings, table.cells(each), strict=True)) for each in table.rows]
    assert [each["p50 95 % CI"] for each in shown] == ["5.00 to 10.0", NOTHING]
    assert [each["p90 95 % CI"] for each in shown] == ["9.00 to 18.0", NOTHING]
    assert [(each["p99 ms"], each["p99 95 % CI"]) for each in shown] == [
        ("12.0", "9.90 to 19.8"),
        (NOTHING, NOTHING),
    ]
    assert any(note.startswith("p99: 1 of 2 cells have fewer than 100 samples") for note in table.notes)
    print_report(found)
    printed = capsys.readouterr().out
    assert "p50 95 % CI" in printed
    assert "p99 ms" in printed
    assert "p90 95 % CI" not in printed
    assert "p99 95 % CI" not in printed
    for page in (html(found), markdown(found)):
        assert "p99 95 % CI" in page
        assert "9.90 to 19.8" in page


def test_without_samples_enough_there_is_no_p99() -> None:
    (table,) = tables(report(row(p99_ms=13.0, samples=12, p50_interval_ms=(1.0, 2.0))))
    assert not [column for column in table.columns if "p99" in column.heading]
    assert any(note.startswith("p99: 1 of 1 cells") for note in table.notes)
    (table,) = tables(report(row(p99_ms=13.0, samples=100, p99_interval_ms=(1.0, 2.0)), row(status="failed")))
    assert not any(note.startswith("p99") for note in table.notes)


def test_outliers_are_pointed_out_where_there_are_many() -> None:
    few, many = row(outliers=5, samples=100), row("int8", outliers=6, samples=100)
    notes = " ".join(tables(report(few, many))[0].notes)
    assert "Outliers: in 1 of 2 cells" in notes
    assert "Outliers" not in " ".join(tables(report(few))[0].notes)


def test_causes_are_given_once_with_the_cells_they_concern() -> None:
    rows = [row(name, status="failed", error="the same\ncause") for name in ("a", "b")]
    (table,) = tables(report(*rows, row("c", status="skipped", error="no Docker")))
    assert "failed digits a 1 thread, digits b 1 thread: the same cause" in table.notes
    assert "skipped digits c 1 thread: no Docker" in table.notes


NASTY = "<script>alert(1)</script>|`*_[x](y)"


def test_cells_that_a_run_was_not_to_measure_are_left_out_while_they_are_pending() -> None:
    waiting = [row(name, status="pending") for name in ("a", "b")]
    found = report(row("measured before"), *waiting, row("measured now"))
    assert [one.policy for one in found.without_unasked([2, 3]).rows] == [
        "measured before",
        "b",
        "measured now",
    ]


@pytest.mark.parametrize("render", [html, markdown])
def test_names_and_errors_in_a_report_are_not_interpreted_as_markup(render: Callable[[Report], str]) -> None:
    text = render(report(row(model=NASTY, status="failed", error=f"cause {NASTY}\nnext"), row(options=NASTY)))
    assert "<script>alert" not in text.replace(r"\<script\>", "")
    if render is markdown:
        heading = next(line for line in text.splitlines() if line.startswith("|"))
        for line in text.splitlines():
            if line.startswith("|"):
                assert line.replace(r"\|", "").count("|") == heading.count("|")
        assert r"\[x\](y)" in text
        assert r"kernel: Linux \<6\> \| x" in text
    else:
        assert "&lt;script&gt;" in text
        assert "kernel: Linux &lt;6&gt; | x" in text


def test_the_terminal_shows_every_row_uncut(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(row("[bold]p[/bold]", pareto_optimal=True), emulated()))
    shown = capsys.readouterr().out
    assert "[bold]p[/bold]" in shown
    assert MARK in shown
    assert "EMULATED" in shown


def test_json_has_the_fixed_keys(tmp_path: Path) -> None:
    found = report(row(), emulated(), folder=tmp_path)
    write_report(found)
    cells = json.loads((tmp_path / "report.json").read_text())["cells"]
    assert [set(FIXED_KEYS) <= set(cell) for cell in cells] == [True, True]
    assert [cell["emulated"] for cell in cells] == [False, True]
    assert (tmp_path / "report.md").read_text() == markdown(found)
    assert (tmp_path / "report.html").read_text() == html(found)
    assert data(found)["sweep"] == "s"


def test_rows_come_from_the_store(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="f", fresh=False)
        places = [
            planned("done", "good"),
            planned("done-without-data", None),
            planned("inaccurate", "bad"),
            planned("not-yet-accurate", "absent"),
            planned("failed", "good"),
            planned("never-run", "good"),
        ]
        store.plan(run, places)
        for key in ("done", "done-without-data", "inaccurate", "not-yet-accurate"):
            store.complete_cell(run, key, done(fps=3.5, digest="ab"))
        store.complete_cell(run, "failed", Outcome(status="failed", error="cause"))
        store.complete_evaluation(run, "good", "accuracy", scores(top1=0.5, top5=0.75))
        store.complete_evaluation(run, "bad", "accuracy", Outcome(status="failed", error="a.jpg: damaged"))
        found = read_report(store, run.id, "s")
    assert [(row.policy, row.status, row.error, row.fps, row.accuracy) for row in found.rows] == [
        ("done", "done", "", 3.5, 0.5),
        ("done-without-data", "done", "", 3.5, None),
        ("inaccurate", "failed", "accuracy: a.jpg: damaged", 3.5, None),
        ("not-yet-accurate", "pending", "", 3.5, None),
        ("failed", "failed", "cause", None, None),
        ("never-run", "pending", "", None, None),
    ]
    assert found.rows[0].scores == {"top1": 0.5, "top5": 0.75}
    assert [row.policy for row in found.failed] == ["inaccurate", "failed"]


def test_certainty_is_of_the_rounds_where_they_are_known(tmp_path: Path) -> None:
    levels = [90, 100, 110]
    samples = [1_000_000 * level + number for level in levels for number in range(10)]
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="f", fresh=False)
        results: dict[str, dict[str, Any]] = {"new": {"rounds": [10, 10, 10]}, "old": {}}
        store.plan(run, [planned(key, target="pi4") for key in results])
        for key, result in results.items():
            store.complete_cell(run, key, done(**result, samples_ns=samples))
        new, old = read_report(store, run.id, "s").rows
    assert (new.rounds, old.rounds) == ([10, 10, 10], None)
    # Three processes whose logarithms scatter by a tenth; one that has got slower.
    error = np.std(np.log(levels), ddof=1) / math.sqrt(3)
    expected = (100 * math.exp(-4.3027 * error), 100 * math.exp(4.3027 * error))
    assert new.p50_interval_ms == pytest.approx(expected, rel=1e-4)
    assert new.p90_interval_ms
    assert new.p90_interval_ms[0] < 110 < new.p90_interval_ms[1]
    assert new.p99_interval_ms is None
    assert new.drift is None
    assert old.drift == pytest.approx(0.25, abs=0.05)


def test_energy_is_of_one_inference_and_has_a_column_where_it_is_known(tmp_path: Path) -> None:
    conditions = CellConditions(energy_joules=30.0, energy_seconds=10.0, energy_source="the command plug")
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="f", fresh=False)
        known = {"fps": 20.0, "conditions": conditions}
        results: dict[str, dict[str, Any]] = {
            "metered": known,
            "not": {"fps": 20.0},
            "idle": {"fps": 0.0, "conditions": conditions},
        }
        store.plan(run, [planned(key, target="pi4") for key in results])
        for key, result in results.items():
            store.complete_cell(run, key, done(**result))
        found = read_report(store, run.id, "s")
    assert [row.energy_mj for row in found.rows] == [pytest.approx(150), None, None]
    (table,) = tables(found)
    place = [column.heading for column in table.columns].index("mJ")
    assert [table.cells(row)[place] for row in table.rows] == ["150", NOTHING, NOTHING]
    (note,) = [note for note in table.notes if note.startswith("mJ: ")]
    assert note.endswith("measured by the command plug.")
    (table,) = tables(report(row()))
    assert "mJ" not in [column.heading for column in table.columns]
    assert not [note for note in table.notes if note.startswith("mJ: ")]


def test_toolchains_are_told_apart_where_there_are_several() -> None:
    found = report(row(), row(toolchain="gcc -O2", status="failed", error="no gcc"))
    (table,) = tables(found)
    assert [column.heading for column in table.columns].count("toolchain") == 1
    assert any("gcc -O2" in note for note in table.notes)
    (table,) = tables(report(row(), row("int8")))
    assert "toolchain" not in [column.heading for column in table.columns]


@pytest.mark.parametrize(
    ("validated", "said"),
    [
        (
            (True, True),
            "30 % here, is the error on published measurements of this kind of board.",
        ),
        ((True, False), "this kind of board; UNVALIDATED with 2 threads, for which there are"),
        ((False, False), "an assumption: UNVALIDATED, as there are no measurements"),
    ],
)
def test_a_prediction_says_how_far_it_was_checked(validated: tuple[bool, bool], said: str) -> None:
    rows = [
        emulated(
            threads=number + 1,
            predicted_ms=5.0,
            predicted_fps=200.0,
            predicted_low_ms=4.0,
            predicted_high_ms=7.0,
            prediction_error=0.1 * (2 * number + 1),
            prediction_validated=known,
        )
        for number, known in enumerate(validated)
    ]
    (table,) = tables(report(*rows))
    (note,) = [note for note in table.notes if note.startswith("PREDICTED")]
    assert said in note
    headings = [column.heading for column in table.columns]
    assert table.cells(table.rows[0])[headings.index("interval ms")] == "4.00 to 7.00"


def test_threads_that_are_assumed_to_divide_the_work_are_named() -> None:
    engine = emulated(threads=4, predicted_ms=5.0, prediction_error=0.2, prediction_validated=True)
    other = emulated(
        threads=4,
        runtime="litert",
        predicted_ms=5.0,
        prediction_error=0.4,
        prediction_validated=False,
        prediction_divided=True,
    )
    (note,) = [note for note in tables(report(engine, other))[0].notes if note.startswith("PREDICTED")]
    assert note.endswith(
        "this kind of board; UNVALIDATED for several threads of litert, which are assumed to divide the work "
        "equally."
    )


def test_borrowed_coefficients_are_named_in_every_form_of_the_report() -> None:
    row = emulated(
        predicted_ms=5.0, prediction_error=0.4, prediction_validated=False, prediction_coefficients_of="pi5"
    )
    (table,) = tables(report(row))
    assert f"Predicted with the coefficients of pi5, not validated for {row.target}." in table.notes
    assert data(report(row))["cells"][0]["prediction_coefficients_of"] == "pi5"
    (table,) = tables(report(emulated(predicted_ms=5.0, prediction_error=0.4, prediction_validated=True)))
    assert not any("coefficients" in note for note in table.notes)


def test_steps_are_compared_with_the_one_before_and_the_first(tmp_path: Path) -> None:
    results: dict[str, dict[str, Any]] = {
        "plain": {"fps": 2.0, "instructions": 9_000_000},
        "tiled": {"fps": 3.0},
        "simd": {},
        "all": {"fps": 90},
    }
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="f", fresh=False)
        places = [
            planned(
                f"{policy}-{step}",
                model="x",
                target="x",
                toolchain="x",
                policy=policy,
                step=step,
                note=f"says {step}",
            )
            for step in results
            for policy in ("fp32", "int8")
        ]
        store.plan(run, places)
        for place in places:
            outcome = done(**results[place.spec.step])
            store.claim("cells", place.key, run)
            store.complete_cell(run, place.key, outcome)
        found = read_report(store, run.id, "s")
    assert not any(row.pareto_optimal for row in found.rows)
    one, other = tables(found)
    assert [row.policy for row in other.rows] == ["int8"] * 4
    assert one.title == "s: x fp32 x on x"
    headings = [column.heading for column in one.columns]
    gains = headings.index("over the step before")
    assert [one.cells(row)[gains : gains + 2] for row in one.rows] == [
        ["–", "–"],  # noqa: RUF001
        ["1.50x", "1.50x"],
        ["–", "–"],  # noqa: RUF001
        ["–", "45.0x"],  # noqa: RUF001
    ]
    assert one.cells(one.rows[0])[headings.index("M instructions")] == "9.00"
    assert "tiled: says tiled" in one.notes
    assert "over the first" in markdown(found)


def test_instructions_that_an_emulator_counted_are_marked() -> None:
    rows = [
        row(step="a", instructions=5_000_000, instructions_isa="avx2"),
        row(step="b", instructions_unavailable_reason="there is no counter"),
    ]
    (table,) = tables(report(*rows))
    column = [column.heading for column in table.columns].index("M instructions")
    assert table.cells(rows[0])[column] == "5.00†"
    assert any("with avx2 vectors" in note for note in table.notes)
    assert "there is no counter" in table.notes
