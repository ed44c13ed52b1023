"""`harness report`: shows the results of a sweep again."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import console
from harness.commands.limit_options import add_limits, limits_of
from harness.commands.model_options import import_to_cache
from harness.commands.run import default_folder
from harness.errors import ConfigurationError


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("results", nargs="?", type=Path, metavar="RESULTS", help="results folder of a sweep")
    which.add_argument(
        "--matrix", type=Path, metavar="SWEEP.yaml", help="show the default results folder of this sweep file"
    )
    parser.add_argument(
        "--format",
        choices=("table", "markdown", "html"),
        help="output format (default: table); not with --json",
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="also show the measured or predicted time of each layer, as tables or with --json",
    )
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness.config.sweep_file import read_sweep
    from harness.report.data import data
    from harness.report.html import html
    from harness.report.layers import print_report_layers
    from harness.report.markdown import markdown
    from harness.report.read import read_report
    from harness.report.terminal import print_report
    from harness.store.read_only import stored_results

    if arguments.json and arguments.format is not None:
        raise ConfigurationError(
            f"--json and --format {arguments.format} exclude each other",
            hint="Leave one of them out.",
        )
    folder = arguments.results or default_folder(read_sweep(arguments.matrix, import_to_cache))
    with stored_results(folder) as store:
        last = store.last_run()
        if last is None:
            raise ConfigurationError(f"{folder}: no run has a result yet", hint="Run the sweep again.")
        report = read_report(
            store,
            *last,
            layers=arguments.layers,
            details=arguments.format == "html",
            limits=limits_of(arguments),
        )
    if arguments.json:
        console.emit_json(data(report))
    elif arguments.format in ("markdown", "html"):
        print({"markdown": markdown, "html": html}[arguments.format](report), end="")
    else:
        print_report(report)
        print_report_layers(report)
    return 0
