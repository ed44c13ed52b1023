"""`harness compare`: says what became slower, faster or different between two runs."""

from __future__ import annotations

import argparse
import re

from harness import console
from harness.errors import ConfigurationError, RegressionError

# As in harness/report/compare/pairs.py, which is not imported for --help.
_NAMES = "model, policy, target, runtime, toolchain, threads, options, step"


def configure(parser: argparse.ArgumentParser) -> None:
    for name, which in (("a", "earlier"), ("b", "later")):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"results folder of the {which} run; FOLDER@RUN takes an older run of it",
        )
    parser.add_argument(
        "--fail-on",
        type=limit,
        metavar="PERCENT",
        help="end with status 7 if a cell is slower by more than this, for example 5%%",
    )
    parser.add_argument(
        "--ignore",
        type=names,
        default=(),
        metavar="NAME[,NAME]",
        help=f"compare cells that differ in this: {_NAMES}",
    )
    parser.add_argument(
        "--allow-unlike",
        action="store_true",
        help="compare cells that were measured on other boards or under other conditions",
    )
    parser.add_argument(
        "--format", choices=("table", "markdown"), help="output format (default: table); not with --json"
    )


def run(arguments: argparse.Namespace) -> int:
    from harness.report.compare.comparison import compare
    from harness.report.compare.data import data
    from harness.report.compare.show import markdown, print_comparison
    from harness.report.compare.side import read_side

    if arguments.json and arguments.format is not None:
        raise ConfigurationError(
            f"--json and --format {arguments.format} exclude each other",
            hint="Leave one of them out.",
        )
    found = compare(
        read_side(arguments.a),
        read_side(arguments.b),
        limit=arguments.fail_on,
        ignored=arguments.ignore,
        allow_unlike=arguments.allow_unlike,
    )
    if arguments.json:
        console.emit_json(data(found))
    elif arguments.format == "markdown":
        print(markdown(found), end="")
    else:
        print_comparison(found)
    if found.regressions:
        raise RegressionError(
            f"{len(found.regressions)} of {len(found.cells)} cells are slower by more than "
            f"{100 * (found.limit or 0):g} %",
            hint="If this is intended, compare the next run with B.",
        )
    if found.limit is not None and found.nothing_tested:
        raise ConfigurationError(
            "no cell could be tested for a regression",
            hint="The notes below the tables have the reasons. A test needs three rounds on each side.",
        )
    return 0


def limit(text: str) -> float:
    """A fraction, from 5% or 2.5%."""
    found = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) ?%", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage, for example 5% or 2.5%")
    return float(found[1]) / 100


def names(text: str) -> tuple[str, ...]:
    """Names of parts of a cell's identity, separated by commas."""
    found = tuple(text.split(","))
    for name in found:
        if name not in _NAMES.split(", "):
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {_NAMES}")
    return found
