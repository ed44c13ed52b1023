"""`harness compare`: what it calls slower, what it refuses, and that it shows every name as text."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells_in_store import done, planned, scores
from hypothesis import given, settings
from rich.console import Console
from series import processes
from test_report_escaping import NAMES

from harness import cli, console
from harness.measure.result import CellConditions, Outcome
from harness.report.compare.comparison import Comparison, compare, percent, verdict
from harness.report.compare.data import data
from harness.report.compare.show import markdown, print_comparison
from harness.report.compare.side import read_side, run_named
from harness.store.store import Store
from harness.text import is_utf8, one_paragraph, printable

MACHINE = {"processor": "Cortex, 4 cores", "kernel": "Linux 6.1", "llvm": "/usr/bin/llvm-mca", "harness": "1"}


def cell(
    milliseconds: float = 10.0, *, rounds: int = 6, noise: float = 0.005, seed: int = 1, **result: Any
) -> Any:
    """A measured cell whose median time is about this."""
    generator = np.random.default_rng(seed)
    samples = (processes(generator, rounds, 5, noise) * milliseconds * 1e4).round().astype(int)
    values: dict[str, Any] = {
        "fps": 1000 / milliseconds,
        "p50_ms": milliseconds,
        "rounds": [5] * rounds,
        "warmup": 3,
        "board": "host",
        "isa": "avx2",
        "arena_bytes": 1000,
    }
    return done(samples_ns=samples.ravel().tolist(), **(values | result))


def emulated(milliseconds: float | None = 5.0, instructions: int = 10**6, **result: Any) -> Any:
    return done(
        fps=0.1, predicted_ms=milliseconds, instructions=instructions, board="pi4 (emulated)", **result
    )


def write(
    folder: Path,
    cells: Mapping[str, Any],
    *,
    environment: Mapping[str, str] = MACHINE,
    fresh: bool = False,
    spec: Mapping[str, Any] | None = None,
    accuracy: Mapping[str, Any] | None = None,
) -> Path:
    """Adds a run to a folder; `cells` are outcomes by their policies."""
    with Store(folder) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=fresh, environment=environment)
        plan = []
        for policy, outcome in cells.items():
            is_emulated = getattr(outcome, "result", None) is not None and outcome.result.board != "host"
            names = {"emulated": is_emulated, "target": "pi4" if is_emulated else "host"} | dict(spec or {})
            plan.append(planned(policy, f"e {policy}" if accuracy else None, **names))
        store.plan(run, plan)
        for policy, outcome in cells.items():
            store.complete_cell(run, policy, outcome)
            if accuracy:
                store.complete_evaluation(run, f"e {policy}", "accuracy", scores(**accuracy))
    return folder


def runs(tmp_path: Path, a: Mapping[str, Any], b: Mapping[str, Any], **of_b: Any) -> tuple[str, str]:
    return str(write(tmp_path / "a", a)), str(write(tmp_path / "b", b, **of_b))


def compared(a: str, b: str, **options: Any) -> Comparison:
    return compare(read_side(a), read_side(b), **options)


def answered(*words: str, capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert cli.main(["compare", *words, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["compare", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 2  # the error and its hint
    return printed.err


def test_a_slower_cell_is_a_regression_beyond_the_limit_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs(
        tmp_path,
        {"slow": cell(10), "fast": cell(10), "same": cell(10)},
        {"slow": cell(11, seed=2), "fast": cell(8, seed=2), "same": cell(10, seed=2)},
    )
    found = answered(a, b, "--fail-on", "5%", capsys=capsys, status=7)
    slow, fast, same = found["cells"]
    assert (slow["outcome"], slow["significant"], slow["regression"]) == ("slower", True, True)
    assert slow["ratio"] == pytest.approx(1.1, rel=0.01)
    assert slow["low"] < slow["ratio"] < slow["high"]
    assert slow["value_b"] / slow["value_a"] == pytest.approx(slow["ratio"])
    assert (fast["outcome"], fast["significant"], fast["regression"]) == ("faster", True, False)
    assert (same["outcome"], same["significant"], same["regression"]) == ("no difference", False, False)
    assert (found["regression"], found["counts"]["slower"]) == (True, 1)
    assert found["verdict"].startswith("Regression: 1 cell is slower by more than 5 %. Of 3 cells: 1 slower")
    unharmed = answered(a, b, "--fail-on=20 %", capsys=capsys)
    assert unharmed["verdict"].startswith("No regression: no cell is slower by more than 20 %.")
    assert [each["regression"] for each in unharmed["cells"]] == [False] * 3
    assert answered(a, b, capsys=capsys)["regression"] is False
    assert cli.main(["compare", b, a, "--fail-on", "5%"]) == 7  # the fast one


def test_a_gate_that_tested_nothing_does_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = runs(tmp_path, {"p": cell(10, rounds=2)}, {"p": cell(99)})
    assert cli.main(["compare", a, b]) == 0
    assert "not tested: m p 1 thread: too few rounds: 2 in A, at least 3 are needed" in one_paragraph(
        capsys.readouterr().out
    )
    assert cli.main(["compare", a, b, "--fail-on", "5%"]) == 2
    printed = capsys.readouterr()
    assert "No verdict: no cell could be tested." in printed.out
    assert "no cell could be tested for a regression" in printed.err
    (only,) = data(compared(a, b))["cells"]
    assert only["ratio"] == pytest.approx(9.9, rel=0.02)
    assert [only[key] for key in ("low", "high", "p_value", "significant")] == [None] * 4


@pytest.mark.parametrize(
    ("b", "ratio", "regression"),
    [
        (emulated(5.0), 1.0, False),
        (emulated(5.2), 1.04, False),
        (emulated(5.3), 1.06, True),
        (emulated(5.0, 1_060_000), 1.0, True),
        (emulated(4.0, 1_040_000), 0.8, False),
        (emulated(None, 1_060_000), 1.06, True),
    ],
)
def test_emulated_cells_are_compared_exactly(tmp_path: Path, b: Any, ratio: float, regression: bool) -> None:
    found = compared(*runs(tmp_path, {"p": emulated(5.0)}, {"p": b}), limit=0.05)
    (only,) = found.cells
    assert only.ratio == only.low == only.high == pytest.approx(ratio)
    assert (only.significant, only.regression) == (ratio != 1, regression)
    assert verdict(found).startswith("Regression: 1 cell is slower" if regression else "No regression: ")
    assert only.figure == ("predicted_ms" if b.result.predicted_ms else "instructions")


def test_exact_figures_that_differ_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = runs(
        tmp_path,
        {"p": cell(digest="x", digests=["x"]), "q": cell(digest="x", digests=["x"])},
        {
            "p": cell(arena_bytes=1500, isa="avx512", digest="y", digests=["y"]),
            "q": cell(digest="y", digests=["y", "z"]),  # of more pictures
        },
    )
    p, q = answered(a, b, capsys=capsys)["cells"]
    assert p["changes"] == [
        {"name": "arena_bytes", "a": 1000, "b": 1500},
        {"name": "isa", "a": "avx2", "b": "avx512"},
        {"name": "digest", "a": "x", "b": "y"},
    ]
    assert q["changes"] == []
    text = markdown(compared(a, b))
    assert "arena 1,000 → 1,500 (+50.0 %), instruction set avx2 → avx512, other outputs" in text
    assert "1 also differs in arena, instruction set, outputs." in text


@pytest.mark.parametrize(
    ("of_b", "changes"),
    [
        ({"top1": 0.5, "images": 40}, []),
        ({"top1": 0.45, "images": 40}, [("accuracy", 0.5, 0.45)]),
        ({"top1": 0.45, "images": 50}, []),
        ({"map50": 0.45, "images": 40}, []),
    ],
)
def test_accuracies_of_the_same_pictures_are_compared(
    tmp_path: Path, of_b: Mapping[str, Any], changes: list[Any]
) -> None:
    a = write(tmp_path / "a", {"p": cell()}, accuracy={"top1": 0.5, "images": 40})
    b = write(tmp_path / "b", {"p": cell()}, accuracy=of_b)
    (only,) = compared(str(a), str(b)).cells
    assert [(change.name, change.a, change.b) for change in only.changes] == changes


@pytest.mark.parametrize(
    ("b", "environment", "said"),
    [
        (cell(board="desk"), MACHINE, "board host in A, desk in B (1 cell)"),
        (cell(warmup=9), MACHINE, "warm-up 3 in A, 9 in B (1 cell)"),
        (cell(), MACHINE | {"processor": "Xeon"}, "processor Cortex, 4 cores in A, Xeon in B (1 cell)"),
        (
            cell(conditions=CellConditions(governors=("schedutil",))),
            MACHINE,
            "governor performance in A, schedutil in B (1 cell)",
        ),
    ],
)
def test_unlike_conditions_are_refused_unless_allowed(
    tmp_path: Path,
    b: Any,
    environment: Mapping[str, str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = cell(conditions=CellConditions(governors=("performance",)))
    spec = {"emulated": False, "target": "host"}
    a = write(tmp_path / "a", {"p": first}, spec=spec)
    other = write(tmp_path / "b", {"p": b}, environment=environment, spec=spec)
    error = refused(str(a), str(other), capsys=capsys)
    assert f"unlike conditions: {said}" in error
    assert "--allow-unlike" in error
    found = answered(str(a), str(other), "--allow-unlike", capsys=capsys)
    assert [each["condition"] for each in found["unlike"]] == [said.split(maxsplit=1)[0]]
    assert f"Unlike conditions, allowed: {said}" in markdown(compared(str(a), str(other), allow_unlike=True))


def test_another_llvm_is_another_prediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = MACHINE | {"llvm": "none", "processor": "Xeon"}  # whose time does not matter under emulation
    a, b = runs(tmp_path, {"p": emulated()}, {"p": emulated()}, environment=other)
    assert "unlike conditions: LLVM /usr/bin/llvm-mca in A, none in B (1 cell)\n" in refused(
        a, b, capsys=capsys
    )


def test_another_kernel_is_only_noted(tmp_path: Path) -> None:
    a, b = runs(tmp_path, {"p": cell()}, {"p": cell()}, environment=MACHINE | {"kernel": "Linux 6.8"})
    found = compared(a, b)
    assert not found.unlike
    assert "Also different: kernel Linux 6.1 in A, Linux 6.8 in B (1 cell)." in markdown(found).replace(
        "\\", ""
    )


def test_emulated_and_measured_cells_are_never_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", {"p": emulated()})
    b = write(tmp_path / "b", {"p": cell(board="desk")}, spec={"target": "pi4", "emulated": False})
    for more in ([], ["--allow-unlike"]):
        assert "no cell in common: one was measured, the other emulated" in refused(
            str(a), str(b), *more, capsys=capsys
        )


def test_cells_that_differ_in_a_name_are_compared_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs(tmp_path, {"p": cell()}, {"p": cell(20)}, spec={"options": "algorithm=reference"})
    error = refused(a, b, capsys=capsys)
    assert "A and B have no cell in common: options (default) in A, algorithm=reference in B" in error
    assert "add --ignore options." in error
    (only,) = answered(a, b, "--ignore", "options,toolchain", "--fail-on=5%", capsys=capsys, status=7)[
        "cells"
    ]
    assert (only["options"], only["differs"]) == ("algorithm=reference", {"options": ""})
    write(tmp_path / "b", {"p": cell(), "q": cell()})
    error = refused(a, b, "--ignore=policy", capsys=capsys)
    assert "two cells of B cannot be told apart: host m p 1 thread, and host m q 1 thread" in error
    with pytest.raises(SystemExit) as caught:
        cli.main(["compare", a, b, "--ignore", "emulated"])
    assert caught.value.code == 2


def test_cells_of_one_side_and_failed_ones_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs(
        tmp_path,
        {"both": cell(), "old": cell(), "broken": cell()},
        {"both": cell(seed=2), "new": cell(), "broken": Outcome(status="failed", error="no luck")},
        spec={"emulated": False, "target": "host"},
    )
    found = answered(a, b, capsys=capsys)
    assert [each["policy"] for each in found["only_a"]] == ["old"]
    assert [each["policy"] for each in found["only_b"]] == ["new"]
    assert [(each["outcome"], each["reason"]) for each in found["cells"]] == [
        ("no difference", None),
        ("no result", "failed in B: no luck"),
    ]
    text = markdown(compared(a, b))
    assert "Only in A: host m old 1 thread." in text
    assert "no result: m broken 1 thread: failed in B: no luck." in text
    assert "1 without a result. Only on one side: 1 in A, 1 in B." in text


def test_throttled_cells_are_marked(tmp_path: Path) -> None:
    a, b = runs(tmp_path, {"p": cell(), "q": cell()}, {"p": cell(throttled=True), "q": cell()})
    text = markdown(compared(a, b))
    assert "m p 1 thread ▲" in text
    assert "m q 1 thread ▲" not in text
    assert "▲ The board was throttled in A or B" in text


def test_an_earlier_run_of_the_same_folder_is_named_by_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    for number, milliseconds in ((1, 10), (2, 12)):  # of two engines, so their results have two keys
        with Store(folder) as store:
            run = store.begin_run(sweep="s", file="s.yaml", fresh=False, environment=MACHINE)
            store.plan(run, [planned(f"key {number}", policy="p")])
            store.complete_cell(run, f"key {number}", cell(milliseconds, seed=number))
    found = answered(f"{folder}@1", str(folder), "--fail-on=5%", capsys=capsys, status=7)
    assert (found["a"]["run"], found["b"]["run"]) == (1, 2)
    assert found["cells"][0]["outcome"] == "slower"
    assert "there is no run 3" in (error := refused(f"{folder}@3", str(folder), capsys=capsys))
    assert "its runs 1, 2, or leave @RUN out" in error


def test_a_result_that_both_runs_share_is_not_tested(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    write(folder, {"p": cell(10)})
    with Store(folder) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        store.plan(run, store.planned(1))
    found = compared(f"{folder}@1", str(folder))
    (only,) = found.cells
    assert (only.outcome, only.significant, only.ratio) == ("same result", None, 1)
    assert verdict(found) == "Of 1 cell: 1 not measured anew."


def test_samples_that_a_later_run_replaced_are_said_to_be_so(tmp_path: Path) -> None:
    folder = write(tmp_path / "results", {"p": cell(10)})
    write(folder, {"p": cell(20)}, fresh=True)
    write(tmp_path / "other", {"p": cell(20, seed=2)})
    text = markdown(compared(f"{folder}@1", str(tmp_path / "other")))
    assert "A: 1 of 1 cells were measured again by a later run with --fresh" in text


def test_a_folder_whose_name_ends_like_a_run_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x@2").mkdir()
    assert run_named(str(tmp_path / "x@2")) == (tmp_path / "x@2", None)
    assert run_named(str(tmp_path / "x@2@7")) == (tmp_path / "x@2", 7)
    assert run_named("y@3") == (Path("y"), 3)
    assert run_named("y@last") == (Path("y@last"), None)


def test_a_copy_of_a_store_differs_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write(tmp_path / "a", {"p": cell(10), "q": cell(3), "e": emulated()})
    shutil.copytree(a, tmp_path / "b")
    found = answered(str(a), str(tmp_path / "b"), "--fail-on=0%", capsys=capsys)
    assert {each["outcome"] for each in found["cells"]} == {"no difference"}
    assert {each["ratio"] for each in found["cells"]} == {1}


@pytest.mark.parametrize("text", ["5", "-5%", "%", "5%%", "five %", "nan%", "1e3%", "٣%", "99999%"])
def test_other_limits_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["compare", "a", "b", f"--fail-on={text}"])
    assert caught.value.code == 2
    assert "is not a percentage, for example 5% or 2.5%" in capsys.readouterr().err


def test_json_and_a_format_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "a", "b", "--json", "--format", "markdown"]) == 2
    assert "--json and --format markdown exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1, "0 %"), (1.0534, "+5.3 %"), (0.5, "-50.0 %"), (1.00002, "+0.002 %"), (24.33, "+2,333.0 %")],
)
def test_changes_are_in_percent(ratio: float, text: str) -> None:
    assert percent(ratio) == text


def test_a_terminal_of_80_columns_shows_all_that_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"int8-fp32-ends": 10.0, "int8-dynamic": 20.0}
    a, b = runs(
        tmp_path,
        {name: cell(time) for name, time in names.items()} | {"e": emulated()},
        {name: cell(1.1 * time, seed=2, arena_bytes=7) for name, time in names.items()} | {"e": emulated(6)},
    )
    output = io.StringIO()
    monkeypatch.setattr(console, "stdout", lambda: Console(file=output, width=80, highlight=False))
    print_comparison(compared(a, b, limit=0.05))
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("Regression: 3 cells are slower by more than 5 %.")
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if line.startswith("m int8-fp32-ends")]
    assert re.search(r" \+\d+\.\d %  .*✗ slower", row)
    assert "+20.0 %" in next(line for line in lines if line.startswith("m e "))


def named(name: str, folder: Path) -> Comparison:
    """The name in every place where one can be."""
    spec = {"model": f"m{name}", "options": f"o{name}"}
    places = {}
    for side, error in (("a", ""), ("b", f"e{name}")):
        places[side] = folder / side
        with Store(places[side]) as store:
            run = store.begin_run(
                sweep=f"w{name}", file="s.yaml", fresh=False, environment={"kernel": f"k{name}"}
            )
            plan = [planned("p", **spec), planned("q", **spec), planned(f"only {side}", **spec)]
            store.plan(run, plan)
            store.complete_cell(run, "p", cell(isa=f"i{side}{name}"))
            outcome = Outcome(status="failed", error=error) if error else cell()
            store.complete_cell(run, "q", outcome)
    return compared(str(places["a"]), str(places["b"]))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return markdown(named("", tmp_path_factory.mktemp("plain")))


@settings(max_examples=25)
@given(name=NAMES.filter(is_utf8))
def test_names_are_text_in_every_format(
    name: str, plain: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = named(name, tmp_path_factory.mktemp("named"))
    text = markdown(found)
    assert text.count("\n") == plain.count("\n")
    for line in text.splitlines():
        bare = re.sub(r"\\.", "", line)
        assert not set(bare.strip("*")) & set("<>`*_[]{}~&")
        assert bare.count("|") in (0, 10)
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "stdout", lambda: Console(file=output, width=5000, highlight=False))
        print_comparison(found)
    assert all(line.isprintable() for line in output.getvalue().split("\n"))
    assert one_paragraph(printable(f"m{name}")) in output.getvalue()
    (first, *_) = json.loads(json.dumps(data(found)))["cells"]
    assert (first["model"], first["options"]) == (f"m{name}", f"o{name}")


def test_help_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from harness.cli import main\n"
        "try: main(['compare', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    for module in ("numpy", "rich", "sqlite3", "harness.report.compare.pairs"):
        assert f"'{module}'" not in printed.stderr
