"""`python -m tools.boardmodel versions`: published times beside the predictions for two versions of ncnn."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from harness import console
from harness.prediction.predictor import find_predictor
from harness.report.tables import figure
from harness.sdk.packages import read_packages
from tools.boardmodel.benchmark_options import Chosen, add_benchmark, chosen, profiles_folder
from tools.boardmodel.validation import FOUR, profile_networks, read_profiled

if TYPE_CHECKING:
    from harness.prediction.model import Prediction
    from tools.boardmodel.published import PublishedBoard


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A published time, and what is predicted with the target's own coefficients."""

    target: str
    network: str
    threads: int
    published_ms: float
    predictions: tuple[
        tuple[str, Prediction], ...
    ]  # with their versions: of the time's date, and the pinned one


def configure(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser, few="can be repeated")


def run(arguments: argparse.Namespace) -> int:
    selected = chosen(arguments, least=1, fitted=True)
    with profiles_folder(arguments.profiles) as kept:
        rows = compare(selected, kept)
    if arguments.json:
        console.emit_json({"comparisons": [_data(row) for row in rows]})
    else:
        for threads in (1, FOUR):
            console.stdout().print(_table([row for row in rows if row.threads == threads], threads))
    return 0


def compare(selected: Chosen, kept: Path) -> list[Comparison]:
    """Profiles both versions, unless their profiles are in `kept`."""
    pinned = read_packages("ncnn")
    folders = {board.packages.version: kept for board in selected.boards}
    folders[pinned.version] = kept / f"ncnn-{pinned.version}"
    again = [replace(board, packages=pinned) for board in selected.boards]
    profile_networks(selected.boards, selected.params, selected.inputs, kept)
    profile_networks(again, selected.params, selected.inputs, folders[pinned.version])
    return [
        Comparison(
            target=board.target.name,
            network=network,
            threads=threads,
            published_ms=milliseconds,
            predictions=tuple(
                (version, _predicted(board, network, threads, folders[version]))
                for version in (board.packages.version, pinned.version)
            ),
        )
        for board in selected.boards
        for threads, times in ((1, board.one_thread_ms), (FOUR, board.four_threads_ms))
        for network, milliseconds in times.items()
    ]


def _predicted(board: PublishedBoard, network: str, threads: int, folder: Path) -> Prediction:
    profiled = read_profiled(folder, board.target.name, network)
    return find_predictor(board.target).predict(profiled, threads)


def _inside(row: Comparison, prediction: Prediction) -> bool:
    low, high = prediction.interval_ms
    return low <= row.published_ms <= high


def _data(row: Comparison) -> dict[str, object]:
    return {
        "target": row.target,
        "network": row.network,
        "threads": row.threads,
        "published_ms": row.published_ms,
        "predictions": [
            {
                "version": version,
                "predicted_ms": prediction.milliseconds,
                "interval_ms": prediction.interval_ms,
                "inside": _inside(row, prediction),
            }
            for version, prediction in row.predictions
        ],
    }


def _table(rows: Sequence[Comparison], threads: int) -> Table:
    title = f"ms: published, and predicted with its interval; {threads} thread{'s'[: threads > 1]}"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("board")
    table.add_column("network")
    for heading in ("published", "ncnn of its date", "inside", "pinned ncnn", "inside"):
        table.add_column(heading, justify="right")
    for row in rows:
        cells: list[str] = []
        for _, prediction in row.predictions:
            low, high = map(figure, prediction.interval_ms)
            cells += [f"{figure(prediction.milliseconds)} ({low} to {high})"]
            cells += ["yes" if _inside(row, prediction) else "no"]
        table.add_row(row.target, row.network, figure(row.published_ms), *cells)
    return table
