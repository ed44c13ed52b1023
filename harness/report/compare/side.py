"""One of the two runs of a comparison, as it is named on the command line and read from its store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.errors import ConfigurationError
from harness.report.read import in_rounds, read_report
from harness.report.result import Row
from harness.store.read_only import stored_results
from harness.store.reader import StoreReader
from harness.store.records import StoredRun

_LISTED = 10  # runs in a message


@dataclass(frozen=True, kw_only=True)
class MeasuredCell:
    """A cell with its raw samples, and where they are from."""

    row: Row
    key: str
    rounds: Sequence[Sequence[int]]  # nanoseconds; none if it was emulated or has no result
    environment: Mapping[str, str]  # of the harness's machine when the cell was measured
    measured_in: int  # the run that its result is from; with --fresh, a later run replaces results


@dataclass(frozen=True, kw_only=True)
class Side:
    """A run with its cells."""

    folder: Path
    run: StoredRun
    cells: Sequence[MeasuredCell]


def run_named(name: str) -> tuple[Path, int | None]:
    """The results folder and the run of FOLDER or FOLDER@RUN; None: the last run. A folder whose name ends
    like this is taken as such."""
    found = re.fullmatch(r"(.+)@([0-9]{1,9})", name, re.DOTALL)
    if found is None or Path(name).exists():
        return Path(name), None
    return Path(found[1]), int(found[2])


def read_side(name: str) -> Side:
    """Reads a run. Raises ConfigurationError if the folder has no results, or no such run."""
    folder, number = run_named(name)
    with stored_results(folder) as store:
        return read_run(store, _run(store, number))


def read_run(store: StoreReader, run: StoredRun) -> Side:
    """Reads a run of an open store."""
    environment = cache(store.environment)  # cells of a run share it
    report = read_report(store, run.id, run.sweep)
    cells = []
    for planned, row in zip(store.planned(run.id), report.rows, strict=True):
        measured_in = store.measured_in(planned.key) or run.id
        timed = row.fps is not None and not row.emulated
        cells.append(
            MeasuredCell(
                row=row,
                key=planned.key,
                rounds=in_rounds(store.samples_ns(planned.key), row.rounds) if timed else (),
                environment=environment(measured_in),
                measured_in=measured_in,
            )
        )
    return Side(folder=store.folder, run=run, cells=cells)


def _run(store: StoreReader, number: int | None) -> StoredRun:
    runs = store.runs()
    if not runs:
        raise ConfigurationError(f"{store.folder}: no run has a result yet", hint="Run the sweep again.")
    if number is None:
        return runs[-1]
    for run in runs:
        if run.id == number:
            return run
    listed = ", ".join(str(run.id) for run in runs[-_LISTED:])
    raise ConfigurationError(
        f"{store.folder}: there is no run {number}",
        hint=f"Name one of its runs {listed}, or leave @RUN out for the last one.",
    )
