"""`harness report`: shows the results of a sweep again."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import console
from harness.commands.run import default_folder
from harness.errors import ConfigurationError


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("results", nargs="?", type=Path, metavar="RESULTS", help="the folder of a sweep")
    which.add_argument("--matrix", type=Path, metavar="SWEEP.yaml", help="whose usual folder is meant")
    parser.add_argument(
        "--format", choices=("table", "markdown", "html"), default="table", help="what is printed (table)"
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="also what each layer took, or is predicted to take; with --json, or as tables",
    )


def run(arguments: argparse.Namespace) -> int:
    from harness.configuration.schema import read_sweep
    from harness.report.data import data
    from harness.report.html import html
    from harness.report.layers import print_report_layers
    from harness.report.markdown import markdown
    from harness.report.result import read_report
    from harness.report.terminal import print_report
    from harness.sweep.store import FILE_NAME, Store

    folder = arguments.results or default_folder(read_sweep(arguments.matrix))
    if not (folder / FILE_NAME).is_file():
        raise ConfigurationError(
            f"{folder}: holds no results ({FILE_NAME})", cure="Name the folder that harness run reported."
        )
    with Store(folder) as store:
        last = store.last_run()
        if last is None:
            raise ConfigurationError(f"{folder}: no run got as far as a result", cure="Run the sweep again.")
        report = read_report(store, *last, layers=arguments.layers)
    if arguments.json:
        console.emit_json(data(report))
    elif arguments.format == "table":
        print_report(report)
        print_report_layers(report)
    else:
        print({"markdown": markdown, "html": html}[arguments.format](report), end="")
    return 0
