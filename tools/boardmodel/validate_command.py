"""`python -m tools.boardmodel validate`: predictions compared with published times, as a table and a plot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from harness import console
from harness.prediction.fit import LEAST_MEASUREMENTS
from harness.report.tables import figure
from tools.boardmodel.benchmark_options import add_benchmark, chosen, profiles_folder
from tools.boardmodel.scatter import draw
from tools.boardmodel.validation import (
    CLOSE,
    BoardValidation,
    median,
    profile_networks,
    share_close,
    validate,
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser, few="four times or more")
    parser.add_argument("--plot", type=Path, metavar="F.svg", help="draw a scatter plot")


def run(arguments: argparse.Namespace) -> int:
    selected = chosen(arguments, least=LEAST_MEASUREMENTS, fitted=False)
    with profiles_folder(arguments.profiles) as profiles:
        profile_networks(selected.boards, selected.params, selected.inputs, profiles)
        validations = validate(selected.boards, profiles)
    if arguments.plot:
        draw(validations, arguments.plot)
    if arguments.json:
        console.emit_json(
            {"boards": [_data(board) for board in validations], "within_20_percent": share_close(validations)}
        )
    else:
        _print(validations, share_close(validations))
    return 0


def _data(board: BoardValidation) -> dict[str, Any]:
    return {
        "target": board.target,
        "one_thread": asdict(board.one_thread),
        "four_threads": asdict(board.four_threads),
        "median_error_other_boards": median(board.other_boards),
        "median_error_int8": median(board.int8),
        "measured_ms": dict(board.measured[0]),
        "measured_four_threads_ms": dict(board.measured[1]),
    }


def _print(validations: Sequence[BoardValidation], close: float) -> None:
    output = console.stdout()
    output.print(_points(validations))
    table = Table(box=box.SIMPLE_HEAD, title="median error, %", title_justify="left")
    for heading in (
        *("board", "compute", "memory", "network left out", "p90 error", "other boards' fit"),
        *("int8 from float", "four threads", "compute", "memory"),
    ):
        table.add_column(heading, justify="left" if heading == "board" else "right")
    for board in validations:
        table.add_row(*_summary(board))
    output.print(table)
    output.print(
        f"{100 * close:.1f} % of the points (one thread, network left out of the fit) are within "
        f"{100 * CLOSE:.0f} %.",
        soft_wrap=True,
    )


def _points(validations: Sequence[BoardValidation]) -> Table:
    title = "ms: published > predicted with the network left out (ratio), one thread"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("network")
    for board in validations:
        table.add_column(board.target, justify="right")
    for network in dict.fromkeys(name for board in validations for name in board.one_thread.errors):
        texts = []
        for board in validations:
            error = board.one_thread.errors.get(network)
            if error is None:
                texts.append("")
                continue
            measured, predicted = board.measured[0][network], board.predicted_ms(network, 1)
            texts.append(f"{figure(measured)} > {figure(predicted)} ({1 + error:.2f})")
        table.add_row(network, *texts)
    return table


def _summary(board: BoardValidation) -> list[str]:
    def percent(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    one, four = board.one_thread.coefficients, board.four_threads.coefficients
    return [
        *(board.target, f"{one.compute:.3f}", f"{one.memory:.3f}"),
        *(percent(one.median_error), percent(one.error_p90), percent(median(board.other_boards))),
        *(percent(median(board.int8)), percent(four.median_error)),
        *(f"{four.compute:.3f}", f"{four.memory:.3f}"),
    ]
