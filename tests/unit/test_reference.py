"""docs/reference.md: it is complete, and its queries print what it says.

conftest.py also compares it with all JSON that any test makes a command print.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from cells_in_store import done, planned, scores
from documented import keys, queries, statuses, undocumented, view_columns
from report_rows import row

from harness import cli, errors
from harness.measure.result import Outcome
from harness.report.data import data
from harness.report.result import Report
from harness.runtimes.base import LayerResult
from harness.store.store import FILE_NAME, Store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A small sweep, run twice; the first time fp32 was slower, and int8 failed."""
    layers = {
        "fp32": [("winograd", 6.0), ("winograd", 3.0), ("reference", 1.0)],
        "int8": [("gemm", 2.0), ("gemm", 1.5), ("reference", 0.5)],
    }
    with Store(tmp_path) as store:
        for again in (False, True):
            run = store.begin_run(sweep="s", file="s.yaml", fresh=again)
            keys = {policy: f"{policy} {again}" for policy in layers}
            store.plan(
                run,
                [planned(key, key, policy=policy) for policy, key in keys.items()],
            )
            for policy, key in keys.items():
                fps, accuracy, step = (100.0, 0.9, 10) if policy == "fp32" else (250.0, 0.885, 4)
                if not again and policy == "int8":
                    store.complete_cell(run, key, Outcome(status="failed", error="no luck"))
                    continue
                profile = [
                    LayerResult(
                        index=index,
                        type="yolo" if algorithm == "reference" else "convolutional",
                        precision=policy,
                        executed=policy,
                        isa="avx2",
                        algorithm=algorithm,
                        ns=round(1e6 * ms),
                        conversion_ns=0,
                        bytes=10,
                    )
                    for index, (algorithm, ms) in enumerate(layers[policy])
                ]
                outcome = done(
                    fps=fps if again else fps / 2,
                    throttled=False,
                    samples_ns=[100_000 * step * tenth for tenth in (6, 7, 8, 9, 10, 10, 11, 12, 14, 20)],
                    layers=profile,
                )
                store.complete_cell(run, key, outcome)
                store.complete_evaluation(run, key, "accuracy", scores(top1=accuracy))
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as found:
        yield found


def printed(cursor: sqlite3.Cursor) -> str:
    """As sqlite3 -header prints it."""
    lines = [[column[0] for column in cursor.description], *([str(value) for value in row] for row in cursor)]
    return "".join(f"{'|'.join(line)}\n" for line in lines)


def test_the_queries_print_what_the_page_says(database: sqlite3.Connection) -> None:
    found = queries()
    assert len(found) == 3
    for query, output in found:
        assert printed(database.execute(query)) == output


def test_the_views_have_the_columns_that_the_page_names(database: sqlite3.Connection) -> None:
    named = view_columns()
    assert set(named) == {"report_cells", "report_layers", "report_samples"}
    for view, columns in named.items():
        assert sorted(columns) == sorted(
            column[0] for column in database.execute(f"SELECT * FROM {view}").description
        )


def test_the_views_say_how_cells_ended(database: sqlite3.Connection) -> None:
    columns = "run, cell, latest, policy, status, error, fps, accuracy, throttled"
    assert database.execute(f"SELECT {columns} FROM report_cells ORDER BY run, cell").fetchall() == [
        (1, 0, 0, "fp32", "done", "", 50.0, 0.9, 0),
        (1, 1, 0, "int8", "failed", "no luck", None, None, None),
        (2, 0, 1, "fp32", "done", "", 100.0, 0.9, 0),
        (2, 1, 1, "int8", "done", "", 250.0, 0.885, 0),
    ]


def test_an_evaluation_that_is_missing_or_failed_is_how_a_cell_ended(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        store.plan(
            run,
            [planned("k", key, policy=key) for key in ("absent", "failed")],
        )
        store.complete_cell(run, "k", done(fps=1.0))
        store.complete_evaluation(run, "failed", "accuracy", Outcome(status="failed", error="no picture"))
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as found:
        rows = found.execute("SELECT policy, status, error, accuracy FROM report_cells").fetchall()
    assert rows == [("absent", "pending", "", None), ("failed", "failed", "accuracy: no picture", None)]


def test_views_of_another_version_are_replaced(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as found:
        found.executescript("DROP VIEW report_cells; CREATE VIEW report_cells AS SELECT 1 AS old")
    Store(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as found:
        assert "old" not in [column[0] for column in found.execute("SELECT * FROM report_cells").description]


def test_every_exit_status_is_named() -> None:
    kinds = [errors.HarnessError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    used = {kind.exit_status for kind in kinds if kind.__module__ == errors.__name__}
    signals = {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    assert set(statuses()) == {0} | used | signals


def test_every_command_has_its_keys() -> None:
    assert [command for command in cli.COMMANDS if command != "schema" and not keys(command)] == []


def test_every_key_of_a_report_is_named() -> None:
    found = Report(sweep="s", folder=Path(), environment={"kernel": "Linux"}, rows=[row()])
    assert undocumented("report", data(found)) == []
    assert undocumented("report", {"cells": [{"new": 1}], "environment": {"any": ""}}) == ["cells[].new"]


@pytest.mark.parametrize("words", [["targets"], ["models"], ["boards"], ["doctor"]])
def test_every_key_that_a_command_prints_is_named(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([*words, "--json"])  # whatever of it this machine has
    assert undocumented(words[0], json.loads(capsys.readouterr().out)) == []
