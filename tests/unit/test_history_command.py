"""`harness history`: which steps it finds in results folders, what it never mixes, and names as text."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from rich.console import Console
from test_compare_command import MACHINE, cell, emulated, write
from test_report_escaping import NAMES, Page

from harness import cli, console
from harness.measure.result import CellConditions, Outcome
from harness.report.history.data import data
from harness.report.history.history import History, history
from harness.report.history.html import html
from harness.report.history.runs import runs_of_folders
from harness.report.history.table import print_history
from harness.store.store import Store
from harness.text import one_paragraph


def days(tmp_path: Path, times: Sequence[float], **more: Any) -> Path:
    """A results folder for each time, with two cells: `p` takes this long, and `steady` 10 ms."""
    for day, milliseconds in enumerate(times):
        cells = {"p": cell(milliseconds, seed=day), "steady": cell(10, seed=100 + day)}
        write(tmp_path / f"day{day:02}", cells, **more)
    return tmp_path


SLOWER = [10.0] * 6 + [11.0] * 4


def answered(*words: str, capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert cli.main(["history", *words, "--json", "--quiet"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["history", *words, "--quiet"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 2  # the error and its hint
    return printed.err


def shown(found: History, width: int = 80) -> str:
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "stdout", lambda: Console(file=output, width=width, highlight=False))
        print_history(found)
    return output.getvalue()


def test_a_step_is_found_in_the_run_that_made_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(days(tmp_path, SLOWER))
    found = answered(folder, "--fail-on", "5%", capsys=capsys, status=7)
    slow, steady = found["cells"]
    (step,) = slow["steps"]
    assert found["runs"][step["run"]]["name"] == str(tmp_path / "day06")
    assert step["ratio"] == pytest.approx(1.1, rel=0.01)
    assert step["after"] / step["before"] == pytest.approx(step["ratio"])
    assert (slow["regression"], steady["regression"], steady["steps"]) == (True, False, [])
    assert slow["change"] == pytest.approx(slow["last"] / slow["first"])
    assert [point["run"] for point in slow["points"]] == list(range(10))
    assert found["verdict"].startswith("Regression: 1 cell is more than 5 % slower than before a step.")
    assert answered(folder, "--fail-on", "20%", capsys=capsys)["regression"] is False
    assert answered(folder, capsys=capsys)["regression"] is False


def test_a_slow_down_that_was_mended_is_no_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = days(tmp_path, [10.0] * 5 + [12.0] * 5 + [10.0] * 5)
    found = answered(str(folder), "--fail-on", "5%", capsys=capsys)
    assert [step["ratio"] > 1 for step in found["cells"][0]["steps"]] == [True, False]
    assert found["cells"][0]["slowdown_vs_best"] == pytest.approx(1, abs=0.01)


def test_a_slow_down_that_was_mended_in_part_is_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = days(tmp_path, [10.0] * 5 + [15.0] * 5 + [12.0] * 5)
    (slow, steady) = answered(str(folder), "--fail-on", "5%", capsys=capsys, status=7)["cells"]
    assert slow["slowdown_vs_best"] == pytest.approx(1.2, rel=0.01)
    assert (steady["slowdown_vs_best"], steady["regression"]) == (None, False)


def test_the_table_fits_into_80_columns_and_names_the_run(tmp_path: Path) -> None:
    text = shown(history(runs_of_folders([days(tmp_path, SLOWER)]), 0.05))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "✗ +" in text
    assert "▁" in text
    assert f" in {tmp_path / 'day06'} (20" in one_paragraph(text)


def test_what_else_changed_at_a_step_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in range(8):
        later: dict[str, Any] = {"isa": "avx512", "arena_bytes": 2000} if day > 3 else {}
        machine = MACHINE | ({"kernel": "Linux 7"} if day > 3 else {})
        outcome = cell(12.0 if day > 3 else 10.0, seed=day, **later)
        write(tmp_path / str(day), {"p": outcome}, environment=machine)
    (step,) = answered(str(tmp_path), capsys=capsys)["cells"][0]["steps"]
    assert [(each["condition"], each["b"]) for each in step["noted"]] == [("kernel", "Linux 7")]
    assert {each["name"]: each["b"] for each in step["changes"]} == {"arena_bytes": 2000, "isa": "avx512"}


def test_runs_of_one_folder_count_each_result_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {"p": cell(10)})
    with Store(folder) as store:  # a second run that takes the result of the first one
        again = store.begin_run(sweep="s", file="s.yaml", fresh=False, environment=MACHINE)
        store.plan(again, store.planned(1))
    write(folder, {"q": cell(9)})
    found = answered(str(folder), str(folder), capsys=capsys)
    assert [run["name"] for run in found["runs"]] == [f"{folder}@{run}" for run in (1, 2, 3)]
    assert [(each["policy"], [point["run"] for point in each["points"]]) for each in found["cells"]] == [
        ("p", [0]),
        ("q", [2]),
    ]


def test_unlike_conditions_are_never_one_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in range(4):
        slow = day % 2
        conditions = CellConditions(samples=1, governors=("powersave" if slow else "performance",))
        outcome = cell(20.0 if slow else 10.0, seed=day, conditions=conditions)
        write(tmp_path / f"{day}", {"p": outcome, "e": emulated(float(day))})
    found = answered(str(tmp_path), capsys=capsys)["cells"]
    assert [(each["policy"], each["emulated"], each["conditions"]) for each in found] == [
        ("p", False, "governor performance"),
        ("p", False, "governor powersave"),
        ("e", True, ""),
        ("e", True, ""),
    ]
    assert [[point["run"] for point in each["points"]] for each in found[:2]] == [[0, 2], [1, 3]]


def test_emulated_figures_are_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day, milliseconds in enumerate([5.0, 5.0, 5.5]):
        write(tmp_path / f"{day}", {"p": emulated(milliseconds)})
    (found,) = answered(str(tmp_path), "--fail-on", "5%", capsys=capsys, status=7)["cells"]
    assert (found["figure"], found["reason"]) == ("predicted_ms", None)
    assert [(step["run"], step["ratio"]) for step in found["steps"]] == [(2, pytest.approx(1.1))]


def test_a_gate_that_searched_nothing_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(days(tmp_path, [10.0, 10.0, 30.0]))
    assert cli.main(["history", folder, "--quiet"]) == 0
    assert "too few runs: 3, at least 4 are needed" in capsys.readouterr().out
    assert cli.main(["history", folder, "--fail-on", "5%", "--quiet"]) == 2
    assert "no cell has enough runs" in capsys.readouterr().err


def test_a_folder_without_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no results (results.sqlite) in it or below" in refused(str(tmp_path), capsys=capsys)
    write(tmp_path / "failed", {"p": Outcome(status="failed", error="no luck")})
    assert "no cell of these runs has a result" in refused(str(tmp_path), capsys=capsys)
    assert (
        "exclude each other"
        in json.loads(answered_error(str(tmp_path), "--json", "--format", "html", capsys=capsys))["error"][
            "message"
        ]
    )


def answered_error(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["history", *words, "--quiet"]) == 2
    return capsys.readouterr().out


def git(*words: str, folder: Path) -> None:
    identity = {f"GIT_{role}_{key}": "a@b" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=os.environ | identity)


def test_committed_results_are_read_from_the_commits_of_a_branch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "--initial-branch=main", folder=tmp_path)
    for day, milliseconds in enumerate(SLOWER):
        folder = tmp_path / "results"
        for old in folder.glob("*"):
            old.unlink()
        write(folder, {"p": cell(milliseconds, seed=day)})
        git("add", "results", folder=tmp_path)
        git("commit", "-m", f"day {day}", folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    found = answered("results", "--git", "main", capsys=capsys)
    (step,) = found["cells"][0]["steps"]
    assert step["run"] == 6
    at_step = subprocess.run(["git", "rev-parse", "main~3"], capture_output=True, text=True, check=True)
    assert found["runs"][6]["commit"] == at_step.stdout.strip()
    assert found["runs"][6]["name"] == "results"
    assert "git rev-list" in refused("results", "--git=--output=x", capsys=capsys)
    assert not (tmp_path / "x").exists()
    assert "no commit of main has results" in refused("elsewhere", "--git", "main", capsys=capsys)


@settings(max_examples=8)
@given(name=NAMES.filter(lambda name: "\0" not in name and "\udce9" not in name))
def test_names_are_shown_as_text(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    def found(name: str) -> History:
        folder = tmp_path_factory.mktemp("results")
        for day in range(4):
            outcome = cell(10.0, seed=day, noise=0.0)
            spec = {"options": f"o{name}", "target": f"t{name}"}
            write(folder / str(day), {f"p{name}": outcome}, spec=spec)
        return history(runs_of_folders([folder]))

    named, plain = found(name), found("")
    page = Page(html(named))
    assert [tag.split()[0] for tag in page.tags] == [tag.split()[0] for tag in Page(html(plain)).tags]
    assert one_paragraph(f"t{name}, ms") in page.texts
    assert all(line.isprintable() for line in shown(named, 1000).split("\n"))
    assert json.loads(json.dumps(data(named)))["cells"][0]["policy"] == f"p{name}"


def test_the_page_draws_each_series_and_its_step(tmp_path: Path) -> None:
    page = html(history(runs_of_folders([days(tmp_path, SLOWER)])))
    tags = Page(page).tags
    assert sum(tag.startswith("circle") for tag in tags) == 20
    assert sum(tag.startswith("line ") for tag in tags) == 1
    assert [tag for tag in tags if tag.startswith(("script", "link", "img"))] == []
    assert np.isfinite([float(word) for tag in tags for word in numbers(tag)]).all()


def numbers(tag: str) -> list[str]:
    return [word for part in tag.split("'") if (word := part.replace(".", "").replace("-", "")).isdigit()]
