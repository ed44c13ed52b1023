"""Reading results from read-only folders and from damaged or foreign files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cells_in_store import done, planned, scores
from old_stores import FORMAT_5

from harness import cli
from harness.runtimes.base import LayerResult
from harness.store.schema import VERSION
from harness.store.store import FILE_NAME, Store

LAYER = LayerResult(
    index=0,
    type="convolutional",
    precision="int8",
    executed="int8",
    isa="avx2",
    algorithm="gemm",
    ns=5,
    conversion_ns=2,
    bytes=7,
)


def fill(folder: Path) -> None:
    with Store(folder) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False, environment={"kernel": "Linux"})
        store.plan(run, [planned("k", "e", policy="int8")])
        samples = [4_000_000, 4_000_001, 4_000_002]
        store.complete_cell(
            run,
            "k",
            done(fps=250.0, p50_ms=4.0, p90_ms=4.5, rounds=[3], samples_ns=samples, layers=[LAYER]),
        )
        store.complete_evaluation(run, "e", "accuracy", scores(top1=0.5))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    fill(folder)
    return folder


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Makes a copy of a folder that nobody can write to: not root either, for whom it is a file system."""
    mounts: list[Path] = []

    def copy(folder: Path) -> Path:
        place = tmp_path / f"read-only-{len(mounts)}"
        if os.geteuid() != 0:
            shutil.copytree(folder, place)
            for path in (*place.iterdir(), place):
                path.chmod(path.stat().st_mode & 0o555)
            return place
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False).returncode:
            pytest.skip("this root may not mount a file system")
        mounts.append(place)
        shutil.copytree(folder, place, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        return place

    try:
        yield copy
    finally:
        for place in mounts:
            subprocess.run(["umount", "--lazy", place], check=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    status = cli.main(["report", str(folder), "--json", "--layers"])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    (cell,) = json.loads(printed.out)["cells"]
    return dict(cell)


def test_results_are_reported_where_nothing_can_be_written(
    results: Path, read_only: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = read_only(results)
    before = contents(folder)
    cell = reported(folder, capsys)
    assert (cell["policy"], cell["fps"], cell["accuracy"]) == ("int8", 250.0, 0.5)
    assert [layer["type"] for layer in cell["layers"]] == ["convolutional"]
    assert contents(folder) == before


def test_results_are_compared_where_nothing_can_be_written(
    results: Path, read_only: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = read_only(results)
    before = contents(folder)
    assert cli.main(["compare", str(folder), str(results), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["outcome"], cell["ratio"]) == ("not tested", 1)
    assert cell["reason"] == "too few rounds: 1, at least 3 are needed"
    assert contents(folder) == before


def test_results_in_the_log_of_a_killed_run_are_read_from_a_read_only_folder(
    results: Path, read_only: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    with Store(results) as store:
        store._database.execute("PRAGMA wal_autocheckpoint = 0")
        run = store.begin_run(sweep="s", file="s.yaml", fresh=True)
        store.plan(run, store.planned(1))
        store.complete_cell(run, "k", done(fps=777.0, samples_ns=[1_287_001]))
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):  # not the file that SQLite makes beside them
            shutil.copyfile(results / name, killed / name)
    folder = read_only(killed)
    before = contents(folder)
    assert f"{FILE_NAME}-wal" in before
    assert reported(folder, capsys)["fps"] == 777.0
    assert contents(folder) == before


def test_a_run_that_goes_on_is_reported_to_who_cannot_write(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can show the same folder twice")
    place = tmp_path / "seen"
    place.mkdir()
    with Store(results) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=True)
        store.plan(run, store.planned(1))
        store.complete_cell(run, "k", done(fps=777.0, samples_ns=[1_287_001]))
        bind = subprocess.run(["mount", "--bind", results, place], check=False)
        if bind.returncode:
            pytest.skip("this root may not mount a folder")
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
            assert reported(place, capsys)["fps"] == 777.0
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


def test_results_of_the_format_before_are_reported_where_nothing_can_be_written(
    tmp_path: Path, read_only: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    with contextlib.closing(sqlite3.connect(old / FILE_NAME)) as database:
        database.executescript(FORMAT_5)
    folder = read_only(old)
    before = contents(folder)
    assert cli.main(["report", str(folder), "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["results"], found["cells"][0]["fps"]) == (str(folder), 2.5)
    assert found["cells"][0]["prediction_unavailable_reason"] == "no LLVM"
    assert contents(folder) == before


def statement(text: str) -> Callable[[Path], None]:
    """Changes a store with SQL."""

    def change(folder: Path) -> None:
        with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as database:
            database.executescript(text)

    change.__name__ = text
    return change


def content(data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / FILE_NAME).write_bytes(data)

    return change


def cut(folder: Path) -> None:
    path = folder / FILE_NAME
    path.write_bytes(path.read_bytes()[:9000])


def overwrite(folder: Path) -> None:
    path = folder / FILE_NAME
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)


def foreign(folder: Path) -> None:
    (folder / FILE_NAME).unlink()
    statement("CREATE TABLE songs (name TEXT)")(folder)


def foreign_with_our_number(number: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        foreign(folder)
        statement(f"PRAGMA user_version = {number}")(folder)

    return change


def pipe(folder: Path) -> None:
    (folder / FILE_NAME).unlink()
    os.mkfifo(folder / FILE_NAME)


DAMAGES = [
    (content(b""), "no results"),
    (content(b"not a database, but long enough to be taken for one" * 10), "not a results file of harness"),
    (cut, "damaged: database disk image is malformed"),
    (overwrite, "damaged: database disk image is malformed"),
    (foreign, "not a results file of harness (another program's database)"),
    (
        foreign_with_our_number(VERSION),
        "not a results file of harness (another program's database: it lacks ",
    ),
    (foreign_with_our_number(4), "not a results file of harness (another program's database: it lacks "),
    (foreign_with_our_number(-3), "unsupported format -3; this version of harness reads format"),
    (statement("PRAGMA user_version = 99"), "unsupported format 99; this version of harness reads format"),
    (pipe, "not a results file of harness (not a regular file)"),
    (statement("UPDATE plan SET policy = CAST(x'ff41' AS TEXT)"), "damaged: a text in it is not UTF-8"),
    (
        statement("UPDATE plan SET threads = 'many'"),
        "damaged: the column threads has a value of type",
    ),
    (
        statement("UPDATE plan SET model = x'00'"),
        "damaged: the column model has a value of type bytes",
    ),
    (statement("UPDATE cells SET result = '{\"fps\": '"), "damaged: a result is not JSON"),
    (statement("UPDATE cells SET result = '[1]'"), "damaged: a result is not a JSON object"),
    (statement("UPDATE cells SET result = '{\"fps\": 1e999}'"), "damaged: a result is not JSON"),
    (statement("UPDATE cells SET result = '{\"fps\": NaN}'"), "damaged: a result is not JSON"),
    (
        statement(f"UPDATE cells SET result = '{'[' * 100_000}'"),
        "damaged: a result is not JSON",
    ),
    (
        statement('UPDATE cells SET result = \'{"fps": "fast"}\''),
        "the result of m int8: Expected `float | null`, got `str` - at `$.fps`",
    ),
    (
        statement('UPDATE cells SET result = \'{"rounds": ["x"]}\''),
        "Expected `int`, got `str` - at `$.rounds[0]`",
    ),
    (
        statement("UPDATE cells SET result = '{\"time_series\": [{}]}'"),
        "missing required field `seconds` - at `$.time_series[0]`",
    ),
    (
        statement('UPDATE cells SET result = \'{"conditions": {"warnings": [1]}}\''),
        "Expected `str`, got `int` - at `$.conditions.warnings[0]`",
    ),
    (statement("UPDATE cells SET status = 'excellent'"), "damaged: the status 'excellent'"),
    (statement("UPDATE samples SET nanoseconds = 0"), "damaged: a sample is not longer than 0 ns"),
    (statement("UPDATE samples SET nanoseconds = 'x'"), "damaged: the column nanoseconds has"),
    (
        statement("UPDATE layers SET bytes = 'x'"),
        "damaged: the column bytes has a value of type str",
    ),
    (
        statement('UPDATE evaluations SET result = \'{"top1": "x"}\''),
        "the accuracy of m int8: top1 is not a number",
    ),
    (statement("UPDATE environment SET value = x'00'"), "damaged: the column value has"),
]


@pytest.mark.parametrize(
    ("writable", "damage", "said"),
    [
        (writable, damage, said)
        for writable in (True, False)
        for damage, said in DAMAGES
        if writable or damage is not pipe  # it could not be copied to where nothing is written
    ],
)
def test_a_damaged_store_is_said_to_be_so_and_stays_as_it_is(
    writable: bool,
    damage: Callable[[Path], None],
    said: str,
    results: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(results)
    folder = results if writable else request.getfixturevalue("read_only")(results)
    before = {} if damage is pipe else contents(folder)
    assert cli.main(["report", str(folder), "--json", "--layers"]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert str(folder) in printed.err
    assert "unexpected" not in printed.err
    assert len(printed.err.splitlines()) == 2  # the error and its hint
    if before:
        assert contents(folder) == before


def test_half_a_character_in_a_result_costs_that_character_alone(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement('UPDATE cells SET result = \'{"board": "d\\udce9sk"}\'')(results)
    assert reported(results, capsys)["board"] == "d?sk"


def test_a_run_leaves_another_programs_file_as_it_is(tmp_path: Path) -> None:
    foreign_folder = tmp_path / "theirs"
    foreign_folder.mkdir()
    (foreign_folder / FILE_NAME).touch()
    foreign(foreign_folder)
    before = contents(foreign_folder)
    with pytest.raises(Exception, match="not a results file of harness"):
        Store(foreign_folder)
    assert contents(foreign_folder) == before


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_json_and_another_format_do_not_go_together(
    form: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(results), "--json", "--format", form]) == 2
    printed = capsys.readouterr()
    assert f"--json and --format {form} exclude each other" in printed.err
    assert json.loads(printed.out).keys() == {"error"}
