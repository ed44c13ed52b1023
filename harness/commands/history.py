"""`harness history`: shows how each cell's speed changed over many runs, and in which run."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import console
from harness.commands.compare import limit
from harness.errors import ConfigurationError, RegressionError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        metavar="FOLDER",
        nargs="+",
        type=Path,
        help="results folder of a sweep, or a folder that contains some",
    )
    parser.add_argument(
        "--git",
        metavar="BRANCH",
        help="read the folders from the commits of a branch, in a repository that keeps its results",
    )
    parser.add_argument(
        "--fail-on",
        type=limit,
        metavar="PERCENT",
        help="end with status 7 if a cell is now slower than before any of its steps by more than this, for "
        "example 5%%",
    )
    parser.add_argument(
        "--format", choices=("table", "html"), help="output format (default: table); not with --json"
    )


def run(arguments: argparse.Namespace) -> int:
    from harness.report.history.data import data
    from harness.report.history.history import history
    from harness.report.history.html import html
    from harness.report.history.runs import runs_of_commits, runs_of_folders
    from harness.report.history.table import print_history

    if arguments.json and arguments.format is not None:
        raise ConfigurationError(
            f"--json and --format {arguments.format} exclude each other",
            hint="Leave one of them out.",
        )
    runs = (
        runs_of_folders(arguments.folders)
        if arguments.git is None
        else runs_of_commits(arguments.git, arguments.folders)
    )
    found = history(runs, arguments.fail_on)
    if arguments.json:
        console.emit_json(data(found))
    elif arguments.format == "html":
        print(html(found), end="")
    else:
        print_history(found)
    if found.regressions:
        raise RegressionError(
            f"{len(found.regressions)} of {len(found.series)} cells are more than "
            f"{100 * arguments.fail_on:g} % slower than before a step",
            hint="If this is intended, leave out the runs before the step.",
        )
    if found.limit is not None and found.nothing_searched:
        raise ConfigurationError(
            "no cell has enough runs to find a step",
            hint="The reasons are below the tables. Add results folders of earlier runs.",
        )
    return 0
