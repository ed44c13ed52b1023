"""`harness report`: shows the results of a sweep again."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import console
from harness.commands.limit_options import add_limits, limits_of
from harness.commands.model_options import import_to_cache
from harness.commands.run import default_folder
from harness.errors import ConfigurationError

if TYPE_CHECKING:
    from harness.report.result import Report

_PROFILES = ("perfetto", "model-explorer", "netron")  # show layers
_ON_ONNX = ("model-explorer", "netron")  # are for the nodes of an ONNX file
_BINARY = ("parquet", "netron")  # are never printed
_FORMATS = ("markdown", "html", "csv", "parquet", *_PROFILES)


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("results", nargs="?", type=Path, metavar="RESULTS", help="results folder of a sweep")
    which.add_argument(
        "--matrix", type=Path, metavar="SWEEP.yaml", help="show the default results folder of this sweep file"
    )
    parser.add_argument(
        "--format",
        choices=("table", *_FORMATS),
        help="output format (default: table); not with --json. csv and parquet: a row for each cell, or with "
        "--layers for each layer; perfetto: a trace of the layers; model-explorer: the layers' times of one "
        "cell as node data; netron: the file of --onnx with the layers' times of one cell",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write to this file instead of standard output"
    )
    parser.add_argument(
        "--onnx",
        type=Path,
        metavar="FILE",
        help="with --format model-explorer or netron: file that `harness export` has written for the model",
    )
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="WORDS",
        help='only cells whose name contains this, for example "digits int8 1 thread"; may be repeated',
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="also show the measured or predicted time of each layer, as tables, as rows or with --json",
    )
    add_limits(parser, "limits of the recommended policy")


def run(arguments: argparse.Namespace) -> int:
    from harness.config.sweep_file import read_sweep
    from harness.files import write_atomically
    from harness.report.data import data
    from harness.report.layers import print_report_layers
    from harness.report.terminal import print_report

    form = arguments.format
    if arguments.json and form is not None:
        raise ConfigurationError(
            f"--json and --format {form} exclude each other",
            hint="Leave one of them out.",
        )
    _check_files(arguments)
    folder = arguments.results or default_folder(read_sweep(arguments.matrix, import_to_cache))
    report = _read(folder, arguments)
    if form in _FORMATS:
        content = _content(report, form, layers=arguments.layers, onnx=arguments.onnx)
        if arguments.out is not None:
            write_atomically(arguments.out, content)
        else:
            print(content.decode(), end="")
    elif arguments.json:
        console.emit_json(data(report))
    else:
        print_report(report)
        print_report_layers(report)
    return 0


def _check_files(arguments: argparse.Namespace) -> None:
    form = arguments.format
    if (form in _ON_ONNX) != (arguments.onnx is not None):
        users = " and ".join(_ON_ONNX)
        raise ConfigurationError(
            f"--format {form} needs --onnx" if form in _ON_ONNX else f"--onnx is for --format {users}",
            hint="Name the file that `harness export --format onnx` has written.",
        )
    if arguments.out is None:
        if form in _BINARY:
            raise ConfigurationError(f"--format {form} writes a file", hint="Name it with --out.")
    elif form not in _FORMATS:
        raise ConfigurationError("--out needs --format", hint=f"Choose one of {', '.join(_FORMATS)}.")


def _read(folder: Path, arguments: argparse.Namespace) -> Report:
    from harness.measure.spec import chosen_cells
    from harness.report.read import read_report
    from harness.store.read_only import stored_results

    form: str | None = arguments.format
    with stored_results(folder) as store:
        last = store.last_run()
        if last is None:
            raise ConfigurationError(f"{folder}: no run has a result yet", hint="Run the sweep again.")
        report = read_report(
            store,
            *last,
            layers=arguments.layers or form in _PROFILES,
            details=form == "html",
            limits=limits_of(arguments),
        )
    chosen = chosen_cells([row.name for row in report.rows], arguments.cell)
    return replace(report, rows=[report.rows[place] for place in chosen])


def _content(report: Report, form: str, *, layers: bool, onnx: Path) -> bytes:
    """The report as a file of this format."""
    from harness.report.formats.csv import csv_table
    from harness.report.formats.model_explorer import node_data
    from harness.report.formats.netron import annotated
    from harness.report.formats.parquet import parquet_table
    from harness.report.formats.records import cell_columns, layer_columns
    from harness.report.formats.trace import trace
    from harness.report.html import html
    from harness.report.markdown import markdown

    columns = layer_columns() if layers else cell_columns()
    writers: dict[str, Callable[[], bytes]] = {
        "markdown": lambda: markdown(report).encode(),
        "html": lambda: html(report).encode(),
        "csv": lambda: csv_table(report, columns),
        "parquet": lambda: parquet_table(report, columns),
        "perfetto": lambda: trace(report),
        "model-explorer": lambda: node_data(report, onnx),
        "netron": lambda: annotated(report, onnx),
    }
    return writers[form]()
