"""`harness predict --validate`: predictions held against published times, as a table and a drawing."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import console

if TYPE_CHECKING:
    from rich.table import Table

    from harness.prediction.validation import BoardValidation


def run(arguments: argparse.Namespace) -> int:
    from harness.config.targets import load_target
    from harness.errors import ConfigurationError
    from harness.prediction.ncnn_run import find_params
    from harness.prediction.predictor import find_predictor
    from harness.prediction.published import read_benchmark
    from harness.prediction.validation import profile_networks, share_close, validate

    benchmark = read_benchmark()
    wanted = {load_target(name).name for name in arguments.target}
    boards = [board for board in benchmark.boards if not wanted or board.target.name in wanted]
    if not boards:
        known = ", ".join(board.target.name for board in benchmark.boards)
        raise ConfigurationError(
            "nothing is published for these targets", cure=f"There are times of {known}."
        )
    params = find_params(arguments.validate, benchmark.inputs)
    for board in boards:
        find_predictor(board.target, fitted=False)  # half an hour of profiling must not end for want of it
    with _kept(arguments.profiles) as kept:
        profile_networks(boards, params, benchmark.inputs, kept)
        validations = validate(boards, kept)
    if arguments.plot:
        from harness.report.scatter import draw

        draw(validations, arguments.plot)
    if arguments.json:
        console.emit_json(
            {"boards": [_data(board) for board in validations], "within_20_percent": share_close(validations)}
        )
    else:
        _print(validations, share_close(validations))
    return 0


@contextlib.contextmanager
def _kept(folder: Path | None) -> Any:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    from harness.temporary import temporary_folder

    with temporary_folder("profiles") as fresh:
        yield fresh


def _data(board: BoardValidation) -> dict[str, Any]:
    from harness.prediction.validation import median

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
    from rich import box
    from rich.table import Table

    from harness.prediction.validation import CLOSE

    output = console.stdout()
    output.print(_points(validations))
    table = Table(box=box.SIMPLE_HEAD, title="median error, %", title_justify="left")
    for heading in (
        *("board", "compute", "memory", "network left out", "nine of ten", "other boards' fit"),
        *("int8 from float", "four threads", "compute", "memory"),
    ):
        table.add_column(heading, justify="left" if heading == "board" else "right")
    for board in validations:
        table.add_row(*_summary(board))
    output.print(table)
    output.print(
        f"{100 * close:.1f} % of all points, one thread and their network left out, are within "
        f"{100 * CLOSE:.0f} %.",
        soft_wrap=True,
    )


def _points(validations: Sequence[BoardValidation]) -> Table:
    from rich import box
    from rich.table import Table

    from harness.report.tables import figure

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
    from harness.prediction.validation import median

    def percent(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    one, four = board.one_thread.coefficients, board.four_threads.coefficients
    return [
        *(board.target, f"{one.compute:.3f}", f"{one.memory:.3f}"),
        *(percent(one.median_error), percent(one.error_p90), percent(median(board.other_boards))),
        *(percent(median(board.int8)), percent(four.median_error)),
        *(f"{four.compute:.3f}", f"{four.memory:.3f}"),
    ]
