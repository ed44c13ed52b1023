"""`python -m tools.boardmodel threads`: two ways to predict four threads, compared on published times.

The model of `harness predict` divides one thread's cycles by four, and fits two coefficients to times of four
threads. The other way takes the cycles of the first of four threads, which also does what is not divided, and
the compute coefficient of one thread. It fits one coefficient, of memory. Both have one thread's bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich import box
from rich.table import Table

from harness import console
from harness.prediction.fit import LEAST_MEASUREMENTS, Measurement, fit
from harness.prediction.model import features
from harness.prediction.predictor import find_predictor
from harness.prediction.profile import read_profile
from harness.report.tables import figure
from tools.boardmodel.benchmark_options import Chosen, add_benchmark, chosen, profiles_folder
from tools.boardmodel.validation import FOUR, profile_networks, profile_path

if TYPE_CHECKING:
    from harness.prediction.model import Work
    from harness.prediction.predictor import Predictor
    from tools.boardmodel.published import PublishedBoard

_Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ThreadsOfBoard:
    """Errors with the network left out of the fit, by network: prediction / published time - 1."""

    target: str
    shares: Mapping[str, float]  # of one thread's cycles, that the first of four executes
    divided: Mapping[str, float]  # errors of the model that divides one thread's cycles
    own: Mapping[str, float]  # errors of the model with the first thread's own cycles
    compute: float  # of one thread
    memory: float  # the fitted coefficient


def configure(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser, few="four times or more")


def run(arguments: argparse.Namespace) -> int:
    selected = chosen(arguments, least=LEAST_MEASUREMENTS, fitted=True)
    with profiles_folder(arguments.profiles) as kept:
        boards = compare(selected, kept)
    if arguments.json:
        console.emit_json({"boards": [asdict(board) for board in boards]})
    else:
        _print(boards)
    return 0


def compare(selected: Chosen, kept: Path) -> list[ThreadsOfBoard]:
    """Profiles one thread and the first of four, unless their profiles are in `kept`."""
    four = kept / "four-threads"
    profile_networks(selected.boards, selected.params, selected.inputs, kept)
    profile_networks(selected.boards, selected.params, selected.inputs, four, threads=FOUR)
    return [_compare(board, find_predictor(board.target), kept, four) for board in selected.boards]


def _compare(published: PublishedBoard, predictor: Predictor, kept: Path, four: Path) -> ThreadsOfBoard:
    def works(folder: Path) -> dict[str, Work]:
        return {
            network: predictor.work(read_profile(profile_path(folder, published.target.name, network)))
            for network in published.four_threads_ms
        }

    board, alone, first = predictor.board, works(kept), works(four)
    assert board.coefficients is not None  # `chosen` has asked for fitted boards
    times = published.four_threads_ms
    rows = [Measurement(name=name, work=alone[name], milliseconds=times[name]) for name in times]
    measured = np.array(list(times.values()))
    computing = np.array([features(first[name], board)[0] for name in times])
    base = board.coefficients.compute * computing / measured
    memory = np.array([features(alone[name], board)[1] for name in times]) / measured
    errors = [
        float(base[i] + memory[i] * fit_memory(np.delete(base, i), np.delete(memory, i)) - 1)
        for i in range(len(times))
    ]
    return ThreadsOfBoard(
        target=published.target.name,
        shares={name: first[name].cycles / alone[name].cycles for name in times},
        divided=fit(rows, board, FOUR, "").errors,
        own=dict(zip(times, errors, strict=True)),
        compute=board.coefficients.compute,
        memory=fit_memory(base, memory),
    )


def fit_memory(base: _Vector, memory: _Vector) -> float:
    """The coefficient that minimises sum |base + coefficient * memory - 1|: it makes one of the errors zero,
    or is zero itself."""
    found = np.append(np.maximum((1 - base[memory > 0]) / memory[memory > 0], 0.0), 0.0)
    sums = np.abs(base + found[:, None] * memory - 1).sum(axis=1)
    return float(found[np.argmin(sums)])


def _print(boards: Sequence[ThreadsOfBoard]) -> None:
    title = "four threads: error in % with the network left out of the fit"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("board")
    table.add_column("network")
    for heading in ("cycles of the first thread, %", "cycles divided", "own cycles"):
        table.add_column(heading, justify="right")
    for board in boards:
        for name, share in board.shares.items():
            errors = (f"{100 * errors[name]:+.1f}" for errors in (board.divided, board.own))
            table.add_row(board.target, name, figure(share, 0.01), *errors)
        medians = (
            f"{100 * np.median(np.abs(list(errors.values()))):.1f}" for errors in (board.divided, board.own)
        )
        table.add_row(board.target, "median of the absolute errors", "", *medians, end_section=True)
    console.stdout().print(table)
    for board in boards:
        console.stdout().print(
            f"{board.target}: own cycles with compute {board.compute:.3f}, as for one thread, and memory "
            f"{board.memory:.3f}",
            soft_wrap=True,
        )
