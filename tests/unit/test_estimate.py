"""How long a sweep will take: by earlier results, else by other cells, else by multiply-adds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cells_in_store import done, scores
from networks import CLASSIFIER, DETECTOR, write_sweep

from harness import cli
from harness.config.darknet_cfg import parse_cfg
from harness.config.multiply_adds import multiply_adds
from harness.config.sweep_file import read_sweep
from harness.measure.cell import Cell
from harness.measure.result import CellOutcome, Outcome
from harness.store.records import PlannedCell, Table
from harness.store.store import Store
from harness.sweep.board_activity import BoardStatus
from harness.sweep.estimate import Estimate, estimate
from harness.sweep.plan import cells
from harness.sweep.worker import Job, at_once

SWEEP = (
    "models:\n"
    "- {name: small, cfg: net.cfg, weights: random}\n"
    "- {name: large, cfg: large.cfg, weights: random}\n"
    "policies: [fp32, fp16]\ntargets: [host, pi4]\n"
)


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Cell, ...]:
    (tmp_path / "large.cfg").write_text(DETECTOR.replace("=32\n", "=64\n").replace(" = 32\n", " = 64\n"))
    return cells(read_sweep(write_sweep(tmp_path, SWEEP)), lambda target: not target.is_host)


def keep(folder: Path, planned: Sequence[Cell], seconds: Mapping[int, float | None]) -> None:
    """Results of the cells with these numbers, which took so long."""
    with Store(folder) as store:
        run = store.begin_run(sweep="s", file="s.yaml", fresh=False)
        store.plan(run, [PlannedCell(spec=cell.spec, key=str(number)) for number, cell in enumerate(planned)])
        for number, taken in seconds.items():
            store.complete_cell(run, str(number), done(wall_seconds=taken))


def estimated(planned: Sequence[Cell], folder: Path, boards: int = 1, *, fresh: bool = False) -> Estimate:
    return estimate(planned, lambda _: ("board",) * boards, folder, fresh=fresh)


def test_without_results_only_the_order_of_magnitude_is_known(
    planned: Sequence[Cell], tmp_path: Path
) -> None:
    found = estimated(planned, tmp_path / "results")
    host, pi4 = found.parts
    assert (host.name, host.cells, host.done) == ("host", 4, 0)
    assert (pi4.name, pi4.cells, pi4.done) == ("pi4 (emulated)", 4, 0)
    assert dict(pi4.basis) == {"multiply-adds alone": 4}
    for span in (host.span, pi4.span, found.total):
        assert span.low == pytest.approx(span.seconds / 4)
        assert span.high == pytest.approx(4 * span.seconds)
    assert found.total.seconds == pytest.approx(host.span.seconds + pi4.span.seconds)
    assert not (tmp_path / "results").exists()


def test_earlier_times_are_the_estimate(planned: Sequence[Cell], tmp_path: Path) -> None:
    keep(tmp_path / "results", planned, {0: 10.0, 1: 20.0, 2: 30.0, 3: None})
    host, pi4 = estimated(planned, tmp_path / "results").parts
    assert (host.cells, host.done, host.span.seconds) == (0, 4, 0)
    assert (pi4.cells, pi4.done) == (4, 0)
    host, pi4 = estimated(planned, tmp_path / "results", fresh=True).parts
    assert dict(host.basis) == {"an earlier result": 3, "other cells of the target": 1}
    assert host.span.seconds == pytest.approx(10 + 20 + 30 + 30, rel=0.1)
    assert dict(pi4.basis) == {"multiply-adds alone": 4}


def test_other_cells_of_the_target_count_by_their_multiply_adds(
    planned: Sequence[Cell], tmp_path: Path
) -> None:
    """The large network has four times the work: 5 s of each cell are for something else."""
    keep(tmp_path / "results", planned, {0: 9.0, 2: 21.0})
    host = estimated(planned, tmp_path / "results").parts[0]
    assert dict(host.basis) == {"other cells of the target": 2}
    assert host.span.seconds == pytest.approx(9 + 21, rel=0.01)
    assert host.span.low == pytest.approx(15, rel=0.01)
    assert host.span.high == pytest.approx(60, rel=0.01)


def test_boards_share_cells_and_none_has_less_than_one(planned: Sequence[Cell], tmp_path: Path) -> None:
    keep(tmp_path / "results", planned, {4: 10.0, 5: 10.0, 6: 40.0, 7: 40.0})
    for boards, seconds in ((1, 100), (2, 50), (9, 40)):
        pi4 = estimated(planned, tmp_path / "results", boards, fresh=True).parts[1]
        assert pi4.span.seconds == pytest.approx(seconds)


def test_a_sustained_cell_takes_the_time_that_is_asked_for(planned: Sequence[Cell], tmp_path: Path) -> None:
    keep(tmp_path / "results", planned, {0: 1.0})
    long = [replace(planned[0], protocol=planned[0].protocol.sustained_for(1800))]
    (host,) = estimated(long, tmp_path / "results", fresh=True).parts
    assert host.span.seconds == pytest.approx(1800, rel=0.01)


def test_a_cell_s_result_says_how_long_all_its_turns_took() -> None:
    def timed(table: Table, outcome: Outcome) -> Outcome:
        job = Job(name="j", table=table, key="k", perform=at_once(lambda: outcome))
        with pytest.raises(StopIteration) as end:
            next(BoardStatus("host", "host").watched(job).perform())
        found: Outcome = end.value.value
        return found

    found = timed("cells", done(fps=5.0))
    assert isinstance(found, CellOutcome)
    assert found.result.wall_seconds is not None
    assert 0 <= found.result.wall_seconds < 60
    assert found == done(fps=5.0, wall_seconds=found.result.wall_seconds)
    assert timed("evaluations", scores(top1=0.5)) == scores(top1=0.5)


@pytest.mark.parametrize(
    ("cfg", "layers"),
    [
        # 0, 2, 3, 5, 8 and 11: 32x32, 16x16 and, after upsample, 32x32
        (
            DETECTOR,
            [
                8 * 3 * 9 * 32 * 32,
                8 * 9 * 16 * 16,
                8 * 8 * 16 * 16,
                21 * 8 * 16 * 16,
                4 * 8 * 9 * 16 * 16,
                21 * 12 * 32 * 32,
            ],
        ),
        (CLASSIFIER, [4 * 9 * 6 * 6, 10 * 4]),
    ],
)
def test_multiply_adds_are_those_of_the_engine(cfg: str, layers: list[int]) -> None:
    assert multiply_adds(parse_cfg(cfg, "net.cfg")) == sum(layers)


def test_a_dry_run_says_what_it_rests_on(
    planned: Sequence[Cell], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path / "results", planned, {0: 60.0, 1: 120.0})
    words = [
        "run",
        "--matrix",
        str(tmp_path / "sweep.yaml"),
        "--results",
        str(tmp_path / "results"),
        "--dry-run",
    ]
    assert cli.main(words) == 0
    out, said = capsys.readouterr()
    assert len(out.splitlines()) == 8
    assert "host: 2 to do, 2 done before: about " in said
    assert "; 2 from other cells of the target\n" in said
    assert "pi4 (emulated): 4 to do: about " in said
    assert said.splitlines()[-1].startswith("8 cells: about ")
    assert cli.main([*words, "--json", "--fresh"]) == 0
    row = json.loads(capsys.readouterr().out)["estimate"]
    assert row["low"] < row["seconds"] < row["high"]
    assert row["parts"][0]["basis"] == [
        {"cells": 2, "from": "an earlier result"},
        {"cells": 2, "from": "other cells of the target"},
    ]
