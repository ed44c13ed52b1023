"""The options of commands that profile networks of ncnn's benchmark, and what they choose."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.config.targets import load_target
from harness.errors import ConfigurationError
from harness.prediction.predictor import find_predictor
from harness.temporary import temporary_folder
from tools.boardmodel import published
from tools.boardmodel.ncnn_run import find_params
from tools.boardmodel.published import PublishedBoard


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Boards with the times of the chosen networks."""

    boards: tuple[PublishedBoard, ...]
    inputs: Mapping[str, int]  # width and height in pixels, by network
    params: Mapping[str, Path]  # the networks' files


def add_benchmark(parser: argparse.ArgumentParser, *, few: str) -> None:
    """`few`: how many networks there have to be, in half a sentence."""
    parser.add_argument(
        "networks", type=Path, metavar="NETS", help="folder with the .param files of ncnn's benchmark/"
    )
    parser.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="N",
        help=f"only this network of the benchmark, such as squeezenet; {few}",
    )
    parser.add_argument(
        "--profiles", type=Path, metavar="DIR", help="keep profiles in this folder, and reuse those in it"
    )


def chosen(arguments: argparse.Namespace, *, least: int, fitted: bool) -> Chosen:
    """Raises ConfigurationError for fewer than `least` networks and for unknown ones, and PredictionError
    where LLVM or, if `fitted`, a board's coefficients are missing: before the profiling, which takes long."""
    benchmark = published.read_benchmark()
    if arguments.network:
        benchmark = benchmark.only(arguments.network)
        if len(benchmark.inputs) < least:
            raise ConfigurationError(
                f"{len(benchmark.inputs)} networks are too few to fit two coefficients",
                hint=f"Name at least {least} with --network.",
            )
    wanted = {load_target(name).name for name in arguments.target}
    boards = tuple(board for board in benchmark.boards if not wanted or board.target.name in wanted)
    if not boards:
        known = ", ".join(board.target.name for board in benchmark.boards)
        raise ConfigurationError(
            "no times are published for these targets", hint=f"Targets with published times: {known}."
        )
    params = find_params(arguments.networks, benchmark.inputs)
    for board in boards:
        find_predictor(board.target, fitted=fitted)
    return Chosen(boards=boards, inputs=benchmark.inputs, params=params)


@contextlib.contextmanager
def profiles_folder(folder: Path | None) -> Iterator[Path]:
    """The folder, created if missing; a temporary one for None."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with temporary_folder("profiles") as fresh:
        yield fresh
