"""What reports compare: policies with fp32, and each other; and that noise and ignorance are no merits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells_in_store import done, planned, scores
from report_rows import emulated, report, row

from harness.measure.intervals import mean_time
from harness.measure.result import CellConditions
from harness.report.comparison import compared_with_fp32
from harness.report.data import data
from harness.report.html import html
from harness.report.markdown import markdown
from harness.report.notes import THROTTLED
from harness.report.pareto import not_ranked, pareto_optimal
from harness.report.read import read_report
from harness.report.result import Report, Resampled
from harness.report.tables import NOTHING, Table, tables
from harness.report.terminal import fitted, print_report
from harness.store.store import Store

QUIET = [[10.0, 10.01], [10.02, 10.0], [9.99, 10.0]]  # milliseconds, in rounds


def timed(policy: str, factor: float = 1.0, noise: float = 0.0, **more: Any) -> Any:
    """A row whose mean time is `factor` times 10 ms, its rounds `noise` apart."""
    rounds = [
        [factor * time * (1 + noise * number) for time in times] for number, times in enumerate(QUIET, -1)
    ]
    time = mean_time(rounds)
    assert time
    return row(policy, **({"mean_time": time, "fps": 1000 / float(np.mean(rounds))} | more))


def scored(policy: str, accuracy: float, scatter: float = 0.0, **more: Any) -> Any:
    """A row whose accuracy differs from another one's by `scatter` (a standard error) on other pictures."""
    values = accuracy + scatter * np.random.default_rng(len(policy)).standard_normal(400)
    return row(policy, accuracy=accuracy, resampled=Resampled("same", values.tolist()), **more)


def shown(table: Table) -> list[dict[str, str]]:
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, table.cells(each), strict=True)) for each in table.rows]


def compared(*rows: Any) -> Report:
    return report(*compared_with_fp32(rows))


def test_unknown_memory_is_no_merit() -> None:
    rows = [row("worse", fps=90.0), row("unknown", peak_rss_bytes=None), row("small", peak_rss_bytes=4 << 20)]
    assert pareto_optimal(rows) == {2}
    assert not_ranked(rows) == {1: ["memory"]}
    (table,) = tables(report(*rows))
    assert "Not ranked (memory unknown): digits unknown 1 thread." in table.notes


@pytest.mark.parametrize("name", ["fps", "accuracy", "peak_rss_bytes"])
def test_a_row_with_an_unknown_figure_is_not_ranked(name: str) -> None:
    best: dict[str, Any] = {"fps": 999.0, "accuracy": 0.99, "peak_rss_bytes": 1 << 20}
    assert pareto_optimal([row("known"), row("best but for one", **(best | {name: None}))]) == {0}
    # Where nobody knows it, the others decide.
    assert pareto_optimal([row("known", **{name: None}), row("best", **(best | {name: None}))]) == {1}


def test_unknown_planned_memory_of_an_emulated_cell_is_no_merit() -> None:
    rows = [
        emulated("known"),
        emulated("no weights", weight_bytes=None),
        emulated("no arena", arena_bytes=None),
    ]
    assert pareto_optimal(rows) == {0}


def test_a_speed_within_the_noise_is_no_merit() -> None:
    slower_but_better = timed("better", 1.0, 0.05, accuracy=0.95)
    assert pareto_optimal([slower_but_better, timed("noisy", 0.98, 0.05)]) == {0}
    assert pareto_optimal([slower_but_better, timed("surely faster", 0.5, 0.01)]) == {0, 1}


def test_an_accuracy_within_the_noise_is_no_merit() -> None:
    faster = scored("faster", 0.90, fps=200.0)
    assert pareto_optimal([faster, scored("lucky", 0.91, 0.01)]) == {0}
    assert pareto_optimal([faster, scored("surely better", 0.91, 0.001)]) == {0, 1}
    other = scored("other pictures", 0.91, 0.01)
    other = row("other", accuracy=0.91, resampled=Resampled("other", other.resampled.values))
    assert pareto_optimal([faster, other]) == {0, 1}  # nothing says how sure that is


@pytest.mark.parametrize("seed", range(5))
def test_the_optimal_rows_are_those_that_no_single_row_dominates(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = [
        timed(
            str(number),
            float(generator.uniform(0.9, 1.1)),
            0.02,
            accuracy=float(generator.choice([0.88, 0.89, 0.9])),
            peak_rss_bytes=int(generator.choice([5, 6, 7])) << 20,
        )
        for number in range(40)
    ]
    alone = {
        index
        for index, each in enumerate(rows)
        if all(0 in pareto_optimal([each, other]) for other in rows if other is not each)
    }
    assert 0 < len(alone) < len(rows)
    assert pareto_optimal(rows) == alone


def test_each_cell_is_compared_with_its_own_fp32_cell() -> None:
    rows = compared(
        row("fp32", fps=100.0),
        row("int8", fps=250.0, accuracy=0.88),
        row("fp32", threads=2, fps=200.0),
        row("int8", threads=2, fps=300.0),
        row("int8", threads=4),
        row("fp32", status="failed", fps=None, accuracy=None, options="isa=avx2"),
        row("int8", options="isa=avx2"),
        emulated("fp32", predicted_fps=5.0),
        emulated("int8", predicted_fps=10.0),
    ).rows
    assert [each.speedup_vs_fp32 for each in rows] == [1.0, 2.5, 1.0, 1.5, None, None, None, 1.0, 2.0]
    assert [each.accuracy_change for each in rows[:4]] == [0.0, pytest.approx(-0.02), 0.0, 0.0]
    assert rows[4].speedup_interval_unavailable_reason == "there is no fp32 cell to compare with"
    assert rows[6].speedup_interval_unavailable_reason == "the fp32 cell has no speed"
    assert rows[6].accuracy_change_interval_unavailable_reason == "the fp32 cell has no accuracy"


def test_speed_ups_and_changes_have_intervals() -> None:
    base = timed("fp32", 1.0, 0.01, accuracy=0.90, resampled=Resampled("d", [0.90, 0.92, 0.88] * 100))
    int8 = timed("int8", 0.5, 0.01, accuracy=0.88, resampled=Resampled("d", [0.88, 0.91, 0.86] * 100))
    found = compared(base, int8)
    (table,) = tables(found)
    one, other = shown(table)
    assert (one["speed-up vs fp32"], one["speed-up 95 % CI"]) == ("1.00x", NOTHING)
    assert one["accuracy change ± bootstrap"] == "+0.00"
    assert other["speed-up vs fp32"] == "2.00x"
    low, high = found.rows[1].speedup_interval or (0.0, 0.0)
    assert 1.9 < low < 2 < high < 2.1
    assert other["speed-up 95 % CI"] == f"{low:.2f} to {high:.2f}"
    assert other["accuracy change ± bootstrap"] == "-2.00 ± 0.93"  # 1.96 times what -2, -1, -2 scatter
    for page in (html(found), markdown(found)):
        for heading in ("speed-up vs fp32", "accuracy change ± bootstrap"):
            assert heading in page
        assert "2.00 ± 0.93" in page
    cell = json.loads(json.dumps(data(found)))["cells"][1]
    assert cell["speedup_vs_fp32"] == pytest.approx(2.0)
    assert cell["speedup_interval"] == [low, high]
    assert cell["accuracy_change"] == pytest.approx(-0.02)
    assert cell["accuracy_change_interval"] == pytest.approx([-0.02 - 0.0093, -0.02 + 0.0093], abs=1e-4)
    assert not {"mean_time", "resampled"} & set(cell)


def test_steps_have_the_mark_of_throttling_and_the_gain_over_fp32() -> None:
    found = compared(
        row("fp32", step="a", fps=10.0),
        row("int8", step="a", fps=20.0, throttled=True, conditions=CellConditions(reasons=("hot",))),
        row("fp32", step="b", fps=15.0),
        row("int8", step="b", fps=45.0),
    )
    _, table = tables(found)
    assert [each["FPS"] for each in shown(table)] == [f"20.0 {THROTTLED}", "45.0"]
    assert [each["speed-up vs fp32"] for each in shown(table)] == ["2.00x", "3.00x"]
    assert f"{THROTTLED} Throttled, also when repeated: hot." in table.notes


def test_without_fp32_there_is_nothing_to_compare_and_that_is_said() -> None:
    (table,) = tables(compared(row("int8"), row("fp16", fps=90.0)))
    assert not [column for column in table.columns if "fp32" in column.heading or "±" in column.heading]
    assert any(note.startswith("No comparison with fp32") for note in table.notes)


def stored(tmp_path: Path, rounds: Sequence[int], evaluation: dict[str, Any]) -> Report:
    """Two policies with so many samples in each round, the second round eighty times slower."""
    samples = [
        150_000 * (80 if number else 1) + sample for number, n in enumerate(rounds) for sample in range(n)
    ]
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="f", fresh=False)
        store.plan(run, [planned(policy, f"of {policy}") for policy in ("fp32", "int8")])
        for policy in ("fp32", "int8"):
            outcome = done(
                fps=200.0, p50_ms=1.0, p90_ms=2.0, p99_ms=2.0, rounds=list(rounds), samples_ns=samples
            )
            store.complete_cell(run, policy, outcome)
            store.complete_evaluation(run, f"of {policy}", "accuracy", scores(**evaluation))
        return read_report(store, run.id, "s")


def test_two_rounds_are_too_few_and_every_format_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = stored(tmp_path, [60, 60], {"top1": 0.5, "images": 100})
    reason = "too few rounds: 2, at least 3 are needed"
    for cell in data(found)["cells"]:
        for name in ("p50_interval", "p90_interval", "p99_interval"):
            assert (cell[f"{name}_ms"], cell[f"{name}_unavailable_reason"]) == (None, reason)
        assert (cell["fps_interval"], cell["fps_interval_unavailable_reason"]) == (None, reason)
        assert cell["speedup_interval"] is None
    assert data(found)["cells"][1]["speedup_interval_unavailable_reason"] == reason
    print_report(found)
    for text in (capsys.readouterr().out, html(found), markdown(found)):
        assert "too few rounds" in text
        assert f"2 of 2 cells have {reason}" in " ".join(text.split())
    (table,) = tables(found)
    assert [each["p50 95 % CI"] for each in shown(table)] == ["too few rounds"] * 2
    assert [each["p99 ms"] for each in shown(table)] == ["2.00", "2.00"]  # 120 samples


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        ({"images": 5}, "too few pictures: 5, at least 20 are needed"),
        ({"images": 500}, "evaluated by an earlier version, which kept no score for each picture"),
        ({}, "evaluated by an earlier version, which kept no score for each picture"),
    ],
)
def test_accuracies_without_pictures_enough_have_no_interval(
    evaluation: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    found = stored(tmp_path, [4, 4, 4], {"top1": 0.5} | evaluation)
    cell = data(found)["cells"][1]
    assert (cell["accuracy_change"], cell["accuracy_change_interval"]) == (0.0, None)
    assert (
        cell["accuracy_change_interval_unavailable_reason"]
        == cell["accuracy_interval_unavailable_reason"]
        == reason
    )
    assert f"No ± in 1 of 2 cells: {reason}." in tables(found)[0].notes


def test_kept_resamples_are_compared_and_not_shown_as_scores(tmp_path: Path) -> None:
    kept = {"metric": "top1", "pictures": 100, "draws": "d", "values": [0.45, 0.55] * 200}
    found = stored(tmp_path, [4, 4, 4], {"top1": 0.5, "images": 100, "resampled": kept})
    cell = data(found)["cells"][1]
    assert cell["scores"] == {"top1": 0.5, "images": 100}
    assert cell["accuracy_interval"] == pytest.approx([0.5 - 0.098, 0.5 + 0.098], abs=1e-3)
    assert cell["accuracy_change_interval"] == (0.0, 0.0)
    assert shown(tables(found)[0])[1]["accuracy change ± bootstrap"] == "+0.00 ± 0.00"


def test_values_that_all_rows_share_are_shown_once() -> None:
    found = report(row(), row("int8"), row("int8", options="isa=avx2"))
    (table,) = tables(found)
    assert table.common == "model digits, runtime engine, toolchain zig, threads 1"
    headings = [column.heading for column in table.columns]
    assert "options" in headings
    assert not {"model", "runtime", "toolchain", "threads"} & set(headings)
    for page in (html(found), markdown(found)):
        assert page.count(table.common) == 1
    (alone,) = tables(report(row()))
    assert alone.common == ""
    assert {"model", "threads"} <= {column.heading for column in alone.columns}


WIDE = "int8 but for the first layer and the two heads"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
def test_policies_are_never_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known: dict[str, Any] = {f"p{percent}_interval_ms": (9.0, 11.0) for percent in (50, 90, 99)}
    found = compared(
        timed("fp32", p99_ms=12.0, digest_matches_host=True, **known),
        timed(WIDE, 0.4, p99_ms=12.0, digest_matches_host=True, **known),
    )

    def narrow() -> Any:
        from rich.console import Console

        return Console(highlight=False, width=width, color_system=None)

    monkeypatch.setattr("harness.console.stdout", narrow)
    print_report(found)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    if width >= 80:
        *_, line = [line for line in lines if WIDE in line]
        assert "2.50x" in line
    else:
        words = " ".join(word for line in lines for word in line.split())
        assert all(word in words for word in WIDE.split())
    (table,) = tables(found)
    brief, without = fitted(table.brief(), width)
    assert bool(without) == (width < 200)
    kept = [column for column in [*brief.columns, *without] if column.spare == 0]
    assert [column.heading for column in kept] == ["", "policy", "FPS"]
    assert ("Columns that do not fit here" in " ".join("\n".join(lines).split())) == bool(without)


@pytest.mark.parametrize("render", [html, markdown, lambda found: json.dumps(data(found))])
def test_a_skipped_cell_is_neither_done_nor_measured(render: Callable[[Report], str]) -> None:
    found = compared(
        emulated("fp32", status="skipped", instructions=None, error="no Docker"),
        emulated("int8", status="skipped", instructions=None, error="no Docker"),
    )
    text = render(found)
    assert "skipped" in text
    assert "no Docker" in text
    assert not any(each.pareto_optimal for each in found.rows)
    (table,) = tables(found)
    assert [each["status"] for each in shown(table)] == ["skipped", "skipped"]
    assert {each["predicted FPS"] for each in shown(table)} == {NOTHING}
    assert "skipped digits fp32 1 thread, digits int8 1 thread: no Docker" in table.notes
