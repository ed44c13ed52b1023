"""`harness run`: measures the missing cells of a sweep and shows the table."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.commands.limit_options import add_limits, limits_of
from harness.commands.model_options import import_to_cache
from harness.commands.scheduler_option import add_scheduler, task_runner
from harness.config.duration import seconds_of
from harness.errors import CellsFailedError, CellsSkippedError, ConfigurationError, ThrottledError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.config.sweep import Sweep
    from harness.measure.cell import Cell
    from harness.report.result import Report
    from harness.sweep.estimate import Estimate, Span
    from harness.sweep.fleet import Fleet


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--matrix", type=Path, required=True, metavar="SWEEP.yaml", help="the sweep file")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="folder of the results, from which a run also resumes (default: results/<name of the sweep>)",
    )
    parser.add_argument(
        "--boards",
        type=Path,
        metavar="FILE",
        help="YAML file of boards to measure on; targets without a board are emulated",
    )
    parser.add_argument(
        "--sustained",
        type=duration,
        metavar="TIME",
        help="measure each cell in one run of this length (90s, 30m, 2h) and show its speed, clock and heat "
        "over time; emulated cells are measured as usual",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the cells and about how long they will take, and stop"
    )
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="WORDS",
        help='measure only cells whose name contains this, for example "digits int8"; may be repeated',
    )
    parser.add_argument("--fresh", action="store_true", help="also measure cells again that have results")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show the work of each board: a table on a terminal, elsewhere a line on stderr for each change "
        "(with --quiet nothing)",
    )
    add_scheduler(parser)
    add_limits(parser, "limits of the recommended policy")


def run(arguments: argparse.Namespace) -> int:
    from harness.config.sweep_file import read_sweep
    from harness.sweep.fleet import Fleet

    if arguments.watch and arguments.quiet:
        raise ConfigurationError(
            "--watch and --quiet exclude each other",
            hint="Leave one of them out.",
        )
    sweep = read_sweep(arguments.matrix, import_to_cache)
    if arguments.sustained is not None:
        sweep = replace(sweep, protocol=sweep.protocol.sustained_for(arguments.sustained))
    fleet = Fleet(arguments.boards)
    if arguments.dry_run:
        return _dry_run(arguments, sweep, fleet)

    from harness.report.board_table import BoardTable
    from harness.report.data import data, write_report
    from harness.report.read import read_report
    from harness.report.terminal import print_report
    from harness.search.sweep_search import search_variant
    from harness.store.store import Store
    from harness.sweep.run import run_sweep

    folder = arguments.results or default_folder(sweep)
    watch = BoardTable if arguments.watch else None
    with task_runner(arguments.scheduler) as runner:
        finished = run_sweep(
            sweep,
            folder,
            fleet,
            only=arguments.cell,
            fresh=arguments.fresh,
            debug=arguments.debug,
            watch=watch,
            searcher=partial(search_variant, runner=runner),
            runner=runner,
        )
    with Store(folder) as store:
        limits = limits_of(arguments)
        report = read_report(store, finished.run, sweep.name, details=True, limits=limits)
    write_report(report)
    if arguments.json:
        console.emit_json(data(report))
    else:
        print_report(report.without_unasked(finished.chosen))
        console.log(f"written to {folder}: report.html, report.md, report.json")
    counts = ", ".join(f"{number} {status}" for status, number in report.counts.items() if number)
    console.log(f"{len(report.rows)} cells: {counts}")
    _raise_for_cells(
        replace(report, rows=[report.rows[place] for place in finished.chosen]), finished.not_repeated
    )
    return 0


def _raise_for_cells(report: Report, not_repeated: int) -> None:
    """Raises the error that says which of the cells failed, were skipped, keep their earlier results or were
    measured on a throttled board."""
    if report.failed:
        causes = sorted({row.error for row in report.failed})
        raise CellsFailedError(
            f"{len(report.failed)} of {len(report.rows)} cells failed:\n  " + "\n  ".join(causes),
            hint="The other results are kept. Run the same command again to retry the failed cells.",
        )
    if report.skipped:
        causes = sorted({row.error for row in report.skipped})
        some = f"{len(report.skipped)} of {len(report.rows)} cells were skipped"
        if len(report.skipped) == len(report.rows):
            some = "no cell could be measured"
        raise CellsSkippedError(
            f"{some}:\n  " + "\n  ".join(causes),
            hint="Install what is missing (see `harness doctor`) and run the same command again.",
        )
    if not_repeated:
        raise CellsSkippedError(
            f"{not_repeated} of {len(report.rows)} cells could not be measured again; the report "
            "has their earlier results",
            hint="See the warnings above.",
        )
    if report.throttled:
        raise ThrottledError(
            f"{len(report.throttled)} of {len(report.rows)} cells were measured on a throttled board",
            hint="The report has the reasons. Improve cooling or power supply and use --fresh.",
        )


def duration(text: str) -> float:
    """Seconds, from 90s, 30m or 2h."""
    try:
        return seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def default_folder(sweep: Sweep) -> Path:
    """The default results folder of a sweep."""
    return Path("results") / sweep.name


def _dry_run(arguments: argparse.Namespace, sweep: Sweep, fleet: Fleet) -> int:
    from harness.measure.spec import chosen_cells
    from harness.sweep.estimate import estimate
    from harness.sweep.plan import cells

    every = cells(sweep, fleet.is_emulated)
    planned = [every[place] for place in chosen_cells([cell.name for cell in every], arguments.cell)]
    folder = arguments.results or default_folder(sweep)
    expected = estimate(planned, fleet.boards, folder, fresh=arguments.fresh)
    if arguments.json:
        rows = [asdict(cell.spec) for cell in planned]
        console.emit_json({"sweep": sweep.name, "cells": rows, "estimate": _estimate_row(expected)})
    else:
        for cell in planned:
            print(cell.name)
        for line in _estimate_lines(expected, planned):
            console.log(line)
    return 0


def _estimate_row(expected: Estimate) -> dict[str, object]:
    def seconds(span: Span) -> dict[str, float]:
        return {key: round(value, 1) for key, value in vars(span).items()}

    parts = [
        {
            "name": part.name,
            **seconds(part.span),
            "cells": part.cells,
            "done": part.done,
            "boards": part.boards,
            "basis": [{"cells": number, "from": how} for how, number in part.basis.items()],
        }
        for part in expected.parts
    ]
    return {**seconds(expected.total), "parts": parts}


def _estimate_lines(expected: Estimate, cells: Sequence[Cell]) -> Iterator[str]:
    for part in expected.parts:
        done = f", {part.done} done before" if part.done else ""
        if not part.cells:
            yield f"{part.name}: nothing to do{done}"
            continue
        basis = " and ".join(f"{number} from {how}" for how, number in part.basis.items())
        boards = f" on {part.boards} boards" if part.boards > 1 else ""
        yield f"{part.name}: {part.cells} to do{boards}{done}: {_time(part.span)}; {basis}"
    left_out = "compilation and image builds"
    if any(cell.variant.search for cell in cells):
        left_out = "compilation, image builds and the search of policies"
    yield f"{len(cells)} cells: {_time(expected.total)}, not including {left_out}"


def _time(span: Span) -> str:
    """For example `about 3 min (2 min to 6 min)`."""

    def shown(seconds: float) -> str:
        for unit, size in (("h", 3600), ("min", 60)):
            if seconds >= 1.5 * size:
                return f"{seconds / size:.{1 if seconds < 10 * size else 0}f} {unit}"
        return f"{seconds:.0f} s"

    return f"about {shown(span.seconds)} ({shown(span.low)} to {shown(span.high)})"
