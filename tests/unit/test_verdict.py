"""Verdicts: which cell is recommended, and that they invent nothing."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import emulated, report, row

from harness import cli
from harness.measure.result import TimePoint
from harness.report.choice import front, knee
from harness.report.comparison import compared_with_fp32, speed_of
from harness.report.data import data
from harness.report.html import html
from harness.report.limits import Limits
from harness.report.markdown import markdown
from harness.report.rerun import cell_command
from harness.report.result import Resampled, Row
from harness.report.terminal import print_report
from harness.report.verdict import Verdict, verdicts

SHARES = st.floats(0, 1)
SPEEDS = st.floats(0.01, 1e4)


def verdict(*rows: Row, **limits: Any) -> Verdict:
    found = verdicts(replace(report(*compared_with_fp32(rows)), limits=Limits(**limits)))
    assert len(found) == 1
    return found[0]


def scored(policy: str, fps: float, *values: float, **more: Any) -> Row:
    """A cell with resampled accuracies."""
    mean = sum(values) / len(values)
    return row(policy, fps=fps, accuracy=mean, resampled=Resampled(draws="d", values=values), **more)


FRONT = (
    row("fp32", fps=100.0, accuracy=0.9),
    row("mixed", fps=190.0, accuracy=0.89, peak_rss_bytes=4 << 20),
    row("int8", fps=200.0, accuracy=0.7),
)


def test_the_knee_is_recommended_with_its_gains_and_losses() -> None:
    found = verdict(*FRONT)
    assert (found.outcome, found.cells) == ("recommended", [1])
    assert found.summary.startswith(
        "mixed – 1.90 times the FPS of fp32, 1.00 points of mAP@0.5 lost, 1.00 MiB less memory."  # noqa: RUF001
    )


@pytest.mark.parametrize(
    ("limits", "cell"),
    [
        ({"max_drop": 0.2}, 2),
        ({"max_drop": 0.01}, 1),
        ({"max_drop": 0.0}, 0),
        ({"max_drop": 0.2, "max_memory": 4 << 20}, 1),
        ({"min_fps": 195.0}, 2),
    ],
)
def test_the_fastest_within_the_limits_is_recommended(limits: dict[str, float], cell: int) -> None:
    found = verdict(*FRONT, **limits)
    assert (found.outcome, found.cells) == ("recommended", [cell])


def test_a_cell_alone_keeps_what_it_gained_over_fp32() -> None:
    """As with --cell: the fp32 cell was compared with, but is not in the report."""
    _, mixed, _ = compared_with_fp32(FRONT)
    (found,) = verdicts(report(mixed))
    assert found.summary.startswith("mixed – 1.90 times the FPS of fp32, 1.00 points of mAP@0.5 lost.")  # noqa: RUF001


def test_limits_that_nothing_meets_recommend_nothing() -> None:
    found = verdict(*FRONT, max_drop=0.05, min_fps=195.0)
    assert (found.outcome, found.cells) == ("none", [])
    assert found.summary == "No policy meets the limits (--max-drop 5 --min-fps 195)."


def test_without_fp32_a_limit_of_the_drop_is_not_met_and_the_verdict_says_why() -> None:
    found = verdict(*FRONT[1:], max_drop=0.5)
    assert found.outcome == "none"
    assert "against fp32 is unknown" in found.summary
    assert "no fp32 cell" in verdict(FRONT[1]).summary


def test_two_ends_without_a_knee_are_left_to_the_user() -> None:
    found = verdict(FRONT[0], FRONT[2])
    assert (found.outcome, found.cells) == ("undecided", [0, 1])
    assert "--max-drop decides" in found.summary


def test_differences_inside_the_noise_do_not_count() -> None:
    noisy = [scored("fp32", 100.0, 0.8, 1.0, 0.9), scored("int8", 200.0, 0.95, 0.85, 0.88)]
    found = verdict(*noisy)
    assert (found.outcome, found.cells) == ("recommended", [1])
    assert "inside the noise" in found.summary


def test_no_accuracy_is_no_recommendation() -> None:
    found = verdict(*(replace(cell, accuracy=None, accuracy_metric=None) for cell in FRONT))
    assert (found.outcome, found.cells) == ("undecided", [2])
    assert "no accuracy was evaluated" in found.summary
    assert "data set" in found.next_step


def test_no_cell_with_a_speed_is_no_verdict() -> None:
    found = verdict(row(status="failed", fps=None), emulated := row("int8", status="failed", fps=None))
    assert (found.outcome, found.summary) == ("none", "No verdict: no cell has a speed.")
    assert found.next_step == "Complete the missing cells"
    assert emulated.status == "failed"


def test_an_emulators_speed_is_never_a_boards() -> None:
    found = verdict(emulated(fps=1.0), emulated("int8", fps=9.0))
    assert (found.outcome, found.cells) == ("none", [])
    found = verdict(emulated(fps=1.0, predicted_ms=10.0, predicted_fps=100.0), emulated("int8", fps=9.0))
    assert found.cells == [0]
    assert found.place == "digits on pi4 (predicted)"
    assert "not measured on a board" in found.basis[0]
    assert "--boards" in found.next_command


def test_a_sustained_speed_stands_beside_that_of_the_first_minute() -> None:
    points = [TimePoint(seconds=30.0 * (n + 1), fps=20.0 if n < 2 else 12.0) for n in range(8)]
    found = verdict(row(target="pi4", time_series=points))
    assert (found.first_minute_fps, found.sustained_fps) == (20.0, 12.0)
    assert any("20.0 FPS in the first minute, 12.0 FPS in the last quarter" in line for line in found.basis)


def test_steps_have_no_verdict() -> None:
    assert verdicts(report(row(step="a"), row(step="b"))) == []


def test_the_verdict_comes_before_the_tables_in_every_format() -> None:
    shown = report(*compared_with_fp32(FRONT))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        print_report(shown)
    sentence = "1.90 times the FPS of fp32"
    for text in (output.getvalue(), markdown(shown), unescape(html(shown))):
        assert 0 < text.index(sentence) < text.index("s: host")
    assert sentence in data(shown)["verdicts"][0]["summary"]


@pytest.mark.parametrize("words", [["--max-drop", "101"], ["--min-fps", "0"], ["--max-memory", "nan"]])
def test_an_impossible_limit_is_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", str(tmp_path), *words])
    assert ended.value.code == 2


@given(points=st.lists(st.tuples(SPEEDS, SHARES), min_size=1, max_size=12))
def test_a_front_gets_faster_and_surely_less_accurate(points: list[tuple[float, float]]) -> None:
    rows = [row(f"p{n}", fps=fps, accuracy=accuracy) for n, (fps, accuracy) in enumerate(points)]
    found = front(rows)
    speeds = [speed_of(each) or 0.0 for each in found]
    accuracies = [each.accuracy or 0.0 for each in found]
    assert speeds == sorted(set(speeds))
    assert accuracies == sorted(set(accuracies), reverse=True)
    assert speeds[-1] == max(speed for speed, _ in points)


@given(
    points=st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1, max_size=9),
    scale=st.sampled_from([0.5, 2.0, 1024.0]),
)
def test_a_knee_is_above_the_line_between_the_ends_in_any_unit(
    points: list[tuple[int, int]], scale: float
) -> None:
    speeds = sorted({speed for speed, _ in points})
    accuracies = sorted({accuracy for _, accuracy in points}, reverse=True)
    line = list(zip(speeds, accuracies, strict=False))
    place = knee([(float(x), float(y)) for x, y in line])
    assert place == knee([(x * scale, y / scale) for x, y in line])
    if len(line) < 3:
        assert place == (0 if len(line) == 1 else None)
    elif place is not None:
        (x0, y0), (x1, y1), (x, y) = line[0], line[-1], line[place]
        assert (x - x0) * (y1 - y0) - (y - y0) * (x1 - x0) < 0


def test_commands_for_cells_of_a_board_name_a_boards_file() -> None:
    """Without one, the target would be emulated, and its cells have other names."""
    folder = Path("results")
    on_board, here, guest = row(target="pi4"), row(), emulated()
    assert "--boards boards.yaml --cell 'pi4 digits fp32 1 thread'" in cell_command(
        "s.yaml", folder, on_board
    )
    for other in (here, guest):
        assert "--boards" not in cell_command("s.yaml", folder, other)
    (verdict,) = verdicts(report(on_board))
    assert "--boards boards.yaml" in verdict.next_command
