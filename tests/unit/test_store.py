"""The store: claims, resumption, and recovery after a process was killed."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cells_in_store import done, planned, scores
from old_stores import FORMAT_4, FORMAT_5, FORMAT_6

from harness.accuracy.picture_detections import Detection, PictureDetections
from harness.boards.sensors.cool_down import Cooling
from harness.boards.sensors.cool_down import Outcome as Cooled
from harness.boards.sensors.governor import HeldGovernor
from harness.errors import ConfigurationError
from harness.measure.result import CellConditions, CellOutcome, Outcome, TimePoint
from harness.runtimes.base import LayerResult
from harness.store.owners import Owner, is_alive, remove_dead
from harness.store.records import PlannedCell
from harness.store.store import FILE_NAME, Claim, Run, Store

LAYER = LayerResult(
    index=3,
    type="convolutional",
    precision="int8",
    executed="int8",
    isa="avx2",
    algorithm="gemm",
    ns=5,
    conversion_ns=2,
    bytes=7,
)
DIVIDED = replace(
    LAYER,
    predicted_ns=10,
    predicted_compute_ns=1,
    predicted_activation_ns=2,
    predicted_conversion_ns=3,
    predicted_memory_ns=4,
)
PICTURES = [
    PictureDetections(
        path="/data/one.png",
        sha256="ab",
        found=[Detection(name='a "<b>"', confidence=0.9, box=(0.1, 0.2, 0.3, 0.4))],
    ),
    PictureDetections(path="/data/\u00fc.png", sha256="cd", found=[]),
]
DONE = done(fps=2.5, samples_ns=[5, 3, 4], layers=[LAYER])
FAILED = CellOutcome(status="failed", error="because")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results") as found:
        yield found


def begin(store: Store, *, fresh: bool = False) -> Run:
    return store.begin_run(sweep="s", file="s.yaml", fresh=fresh, environment={"kernel": "Linux"})


def place(key: str, accuracy: str | None = None) -> PlannedCell:
    return planned(key, accuracy, toolchain="gcc -O2", threads=2, options="isa=avx2", emulated=True)


class Interruption(KeyboardInterrupt):
    pass


@contextlib.contextmanager
def interrupted_at(number: int) -> Iterator[None]:
    """Raises Interruption at the given line that the block executes in the store or in contextlib, as a
    signal would."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(("store/store.py", "contextlib.py")):
            return None
        lines += event == "line"
        if event == "line" and lines == number:
            raise Interruption
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_store_can_be_used_after_an_interruption_at_any_line(store: Store) -> None:
    run = begin(store)
    claims = []
    for number in itertools.count(1):
        key = f"k{number}"
        try:
            with interrupted_at(number):
                store.claim("cells", key, run)
                store.complete_cell(run, key, DONE)
            break  # after the last line
        except Interruption:  # its traceback keeps alive what was interrupted
            store.release(key)
            claims.append(store.claim("cells", key, run))
            store.release(key)
    assert claims.count(Claim.MINE) > 50
    assert set(claims[claims.count(Claim.MINE) :]) <= {Claim.SETTLED}
    assert store.settled("cells", key, run)


def test_a_result_is_kept_with_all_that_belongs_to_it(store: Store) -> None:
    run = begin(store)
    assert store.claim("cells", "k", run) is Claim.MINE
    store.complete_cell(run, "k", DONE)
    assert store.cell("k") == done(fps=2.5)
    assert store.samples_ns("k") == [5, 3, 4]
    assert store.layers("k") == [LAYER]
    assert store.claim("cells", "k", run) is Claim.SETTLED


def test_the_detections_of_an_evaluation_are_kept_until_it_is_replaced(store: Store) -> None:
    run = begin(store)
    store.complete_evaluation(run, "e", "accuracy", replace(scores(map50=0.5), detections=PICTURES))
    assert (store.evaluation("e"), store.detections("e")) == (scores(map50=0.5), PICTURES)
    store.complete_evaluation(run, "e", "accuracy", FAILED)
    assert store.detections("e") == []


def test_a_new_result_replaces_the_old_one_whole(store: Store) -> None:
    run = begin(store)
    store.complete_cell(run, "k", DONE)
    store.complete_cell(run, "k", done(fps=1.0, samples_ns=[9]))
    assert (store.samples_ns("k"), store.layers("k")) == ([9], [])


def test_a_result_that_cannot_be_written_leaves_no_traces(store: Store) -> None:
    run = begin(store)
    store.claim("cells", "k", run)
    store.complete_cell(run, "k", DONE)
    broken = done(fps=float("nan"), samples_ns=[1])
    with pytest.raises(ValueError, match="JSON"):
        store.complete_cell(run, "k", broken)
    assert store.samples_ns("k") == [5, 3, 4]
    twice = done(samples_ns=[1], layers=[LAYER, LAYER])
    with pytest.raises(sqlite3.IntegrityError):
        store.complete_cell(run, "k", twice)
    assert store.samples_ns("k") == [5, 3, 4]
    assert store.layers("k") == [LAYER]


def test_done_is_kept_and_failed_is_tried_again(store: Store) -> None:
    first = begin(store)
    store.complete_cell(first, "done", DONE)
    store.complete_cell(first, "failed", FAILED)
    store.complete_cell(first, "skipped", Outcome(status="skipped"))
    assert all(store.settled("cells", key, first) for key in ("done", "failed", "skipped"))
    second = begin(store)
    assert [store.settled("cells", key, second) for key in ("done", "failed", "skipped")] == [
        True,
        False,
        False,
    ]
    third = begin(store, fresh=True)
    assert not store.settled("cells", "done", third)
    store.complete_cell(second, "done", DONE)  # by another process, in the meantime
    assert store.settled("cells", "done", third)


def test_a_later_run_of_another_process_does_not_repeat_what_failed_meanwhile(store: Store) -> None:
    one, other = begin(store), begin(store)
    store.complete_evaluation(one, "k", "accuracy", FAILED)
    assert store.claim("evaluations", "k", other) is Claim.SETTLED


def test_evaluations_and_cells_are_told_apart(store: Store) -> None:
    run = begin(store)
    store.complete_evaluation(run, "k", "accuracy", DONE)
    assert store.settled("evaluations", "k", run)
    assert not store.settled("cells", "k", run)


def test_claims_exclude_each_other(store: Store, tmp_path: Path) -> None:
    run = begin(store)
    with Store(tmp_path / "results") as other:
        assert store.claim("cells", "k", run) is Claim.MINE
        assert other.claim("cells", "k", run) is Claim.BUSY
        assert store.claim("cells", "k", run) is Claim.BUSY  # by another thread of this process
        store.release("k")
        assert other.claim("cells", "k", run) is Claim.MINE
    assert store.claim("cells", "k", run) is Claim.MINE  # a closed store gives up its claims


def test_many_threads_and_stores_claim_every_key_once(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(30)]
    won: list[str] = []
    with Store(tmp_path) as first:
        run = begin(first)

    def work() -> None:
        with Store(tmp_path) as store:
            for key in keys:
                if store.claim("cells", key, run) is Claim.MINE:
                    won.append(key)
                    store.complete_cell(run, key, DONE)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(keys)


def _claim_and_hang(folder: Path, run: Run, claimed: object) -> None:
    store = Store(folder)
    assert store.claim("cells", "k", run) is Claim.MINE
    claimed.set()  # type: ignore[attr-defined]
    signal.pause()


def test_the_claim_of_a_killed_process_is_taken_over_at_once(store: Store) -> None:
    run = begin(store)
    context = multiprocessing.get_context("spawn")
    claimed = context.Event()
    process = context.Process(target=_claim_and_hang, args=(store.folder, run, claimed))
    process.start()
    assert process.pid is not None
    try:
        assert claimed.wait(60)
        assert store.claim("cells", "k", run) is Claim.BUSY
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert store.claim("cells", "k", run) is Claim.MINE
    with Store(store.folder) as later:
        later.claim("cells", "other", run)
    assert len(list((store.folder / "owners").iterdir())) == 1  # only this process's is left


def test_owners_live_until_they_are_closed(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    assert is_alive(tmp_path, owner.name)
    remove_dead(tmp_path)
    assert is_alive(tmp_path, owner.name)
    owner.close()
    assert not is_alive(tmp_path, owner.name)
    assert not is_alive(tmp_path, "never-there")
    (tmp_path / "left-behind").touch()
    assert not is_alive(tmp_path, "left-behind")
    remove_dead(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_plan_of_the_last_run(store: Store) -> None:
    assert store.last_run() is None
    first = begin(store)
    assert store.last_run() is None  # it has no plan yet
    store.plan(first, [place("a", "x"), place("b")])
    assert store.last_run() == (first.id, "s")
    assert store.planned(first.id) == [place("a", "x"), place("b")]
    assert store.environment(first.id) == {"kernel": "Linux"}
    assert not store.has_results("host")
    store.complete_cell(first, "b", DONE)
    assert store.has_results("host")
    assert not store.has_results("pi4")


def test_a_file_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("not a database, but long enough to be taken for one" * 10)
    with pytest.raises(ConfigurationError, match="not a results file of harness"):
        Store(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot write results"):
        Store(tmp_path / FILE_NAME / "below-a-file")


def test_another_version_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    database = sqlite3.connect(tmp_path / FILE_NAME)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ConfigurationError, match="unsupported format 99"):
        Store(tmp_path)


def test_the_last_revision_is_found_without_reading_all_results(store: Store) -> None:
    with contextlib.closing(sqlite3.connect(store.path)) as database:
        for table in ("cells", "evaluations"):
            (plan,) = database.execute(f"EXPLAIN QUERY PLAN SELECT max(revision) FROM {table}").fetchall()
            assert plan[3] == f"SEARCH {table}"  # by its key, not SCAN


def test_a_replaced_result_counts_as_done_since(store: Store) -> None:
    store.complete_cell(begin(store), "k", DONE)
    again = begin(store, fresh=True)
    assert not store.settled("cells", "k", again)
    store.complete_cell(again, "k", DONE)  # the last revision is the one that goes
    assert store.settled("cells", "k", again)


def test_results_are_written_through_to_the_disk_and_claims_are_not(store: Store) -> None:
    said: list[str] = []
    store._database.set_trace_callback(said.append)
    run = begin(store)
    assert store.claim("cells", "k", run) is Claim.MINE
    store.complete_cell(run, "k", DONE)
    store.claim("cells", "other", run)
    store.release("other")
    store.complete_evaluation(run, "other", "accuracy", DONE)
    power_cut, claimed = "PRAGMA synchronous = ", "INSERT OR REPLACE INTO claims"
    expected = [
        *(f"{power_cut}NORMAL", claimed, f"{power_cut}FULL", "INSERT INTO cells"),
        *(f"{power_cut}NORMAL", claimed, f"{power_cut}FULL", "INSERT INTO evaluations"),
    ]
    assert [text for words in said for text in dict.fromkeys(expected) if words.startswith(text)] == expected


def test_results_of_format_5_have_the_keys_of_today(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.executescript(FORMAT_5)
    with Store(tmp_path) as store:
        assert store.cell("k") == done(
            fps=2.5,
            rounds=[3],
            bit_exact=True,
            digests=["ab"],
            instructions_unavailable_reason="no counter",
            prediction_unavailable_reason="no LLVM",
            time_series=[TimePoint(seconds=1.5, fps=2.5, celsius=48.3)],
            conditions=CellConditions(
                samples=4,
                throttled=False,
                warnings=("loud",),
                cooling=[
                    Cooling(
                        outcome=Cooled.COOL,
                        limit_celsius=65.0,
                        first_celsius=40.0,
                        last_celsius=40.0,
                        waited_seconds=0.0,
                    )
                ],
                governor=[HeldGovernor(governor="performance", held=False, reason="no sudo", hint="Ask.")],
            ),
        )
        assert (store.samples_ns("k"), store.layers("k")) == ([5, 3, 4], [LAYER])
        assert store.planned(1) == [planned("k", "e", policy="int8")]


def test_results_of_format_6_have_no_parts_of_times_and_no_detections(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.executescript(FORMAT_6)
    with Store(tmp_path) as store:
        assert store.cell("k") == done(fps=2.5)
        assert store.layers("k") == [replace(LAYER, predicted_ns=9)]
        assert (store.evaluation("e"), store.detections("e")) == (scores(map50=0.5), [])
        store.complete_cell(begin(store), "k", replace(DONE, layers=[DIVIDED]))
        assert store.layers("k") == [DIVIDED]


def test_results_of_format_4_are_kept(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.executescript(FORMAT_4)
    for _ in range(2):  # the second time they are in the format of today
        with Store(tmp_path) as store:
            assert store.cell("k") == done(fps=2.5)
            assert (store.samples_ns("k"), store.layers("k")) == ([5, 3, 4], [LAYER])
            assert store.cell("other") == FAILED
            assert store.evaluation("e") == scores(top1=0.5)
            assert begin(store).baseline == 3
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        upgraded = set(database.execute("SELECT type, name FROM sqlite_schema"))
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    Store(tmp_path / "new").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "new" / FILE_NAME)) as database:
        assert set(database.execute("SELECT type, name FROM sqlite_schema")) == upgraded
