"""Compares predictions with published times, for networks, boards and precisions left out of the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness import console
from harness.errors import HarnessError
from harness.files import write_atomically
from harness.prediction.fit import Fit, Measurement, errors_of, fit, fit_memory, fit_together
from harness.prediction.predictor import find_predictor
from harness.prediction.profile import Profiled, read_profile
from harness.temporary import temporary_folder
from tools.boardmodel.ncnn_run import ncnn_board

if TYPE_CHECKING:
    from harness.config.board_data import BoardData
    from harness.prediction.model import Work
    from tools.boardmodel.published import PublishedBoard

FOUR = 4
CLOSE = 0.20  # relative error that counts as close
_BOARDS_AT_ONCE = 2

Errors = Mapping[str, float]  # by network: prediction / measured time - 1


@dataclass(frozen=True, kw_only=True)
class BoardValidation:
    """The errors for one kind of board."""

    target: str
    works: Mapping[str, Work]  # of one thread
    measured: tuple[Mapping[str, float], Mapping[str, float]]  # milliseconds of one thread and of four
    one_thread: Fit  # leave-one-out errors
    four_threads: Fit
    other_boards: Errors  # with coefficients fitted to the other boards; empty for a single board
    int8: Errors  # of int8 networks, with coefficients fitted to the others

    def predicted_ms(self, network: str, threads: int) -> float:
        """The prediction with coefficients fitted to the other networks."""
        found = self.one_thread if threads == 1 else self.four_threads
        return self.measured[threads != 1][network] * (1 + found.errors[network])


def profile_networks(
    boards: Sequence[PublishedBoard], params: Mapping[str, Path], inputs: Mapping[str, int], kept: Path
) -> None:
    """Profiles one thread and the first of four of every network on every board, unless `kept` has them.

    Raises HarnessError for the first network that fails.
    """
    total = 2 * sum(len(board.one_thread_ms) for board in boards)
    with (
        console.progress("profiling networks", total) as progress,
        ThreadPoolExecutor(_BOARDS_AT_ONCE) as pool,
    ):

        def advance(name: str) -> None:
            progress.describe(f"profiled {name}")
            progress.advance()

        futures = [pool.submit(_profile_board, board, params, inputs, kept, advance) for board in boards]
        for future in futures:
            future.result()


def _profile_board(
    published: PublishedBoard,
    params: Mapping[str, Path],
    inputs: Mapping[str, int],
    kept: Path,
    advance: Callable[[str], None],
) -> None:
    target = published.target.name
    missing = []
    for network in published.one_thread_ms:
        for threads in (1, FOUR):
            if profile_path(kept, target, network, threads).is_file():
                advance(_name(network, target, threads))
            else:
                missing.append((network, threads))
    if not missing:
        return
    with ncnn_board(published) as board, temporary_folder("profile") as folder:
        for network, threads in missing:
            fresh = folder / network
            board.profile(params[network], inputs[network], fresh, threads)
            path = profile_path(kept, target, network, threads)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, fresh.read_bytes())
            advance(_name(network, target, threads))


def _name(network: str, target: str, threads: int) -> str:
    return f"{network} on {target}" + (f", {threads} threads" if threads > 1 else "")


def validate(boards: Sequence[PublishedBoard], kept: Path) -> list[BoardValidation]:
    """Validates the profiles of `profile_networks`. Raises PredictionError without LLVM."""
    works: dict[int, dict[str, dict[str, Work]]] = {1: {}, FOUR: {}}  # by threads and target
    data: dict[str, BoardData] = {}
    for board in boards:
        name = board.target.name
        predictor = find_predictor(board.target, fitted=False)
        data[name] = predictor.board
        profiles = {network: read_profiled(kept, name, network) for network in board.one_thread_ms}
        for threads, found in works.items():
            found[name] = {
                network: predictor.work(profiled, threads) for network, profiled in profiles.items()
            }
    return [_validate(board, boards, works, data) for board in boards]


def _validate(
    board: PublishedBoard,
    boards: Sequence[PublishedBoard],
    works: Mapping[int, Mapping[str, Mapping[str, Work]]],
    data: Mapping[str, BoardData],
) -> BoardValidation:
    name = board.target.name
    mine = _measurements(board.one_thread_ms, works[1][name])
    floats = [measured for measured in mine if not measured.name.endswith("_int8")]
    integers = [measured for measured in mine if measured.name.endswith("_int8")]
    version = f"ncnn {board.packages.version}"
    others = [
        (_measurements(other.one_thread_ms, works[1][other.target.name]), data[other.target.name])
        for other in boards
        if other is not board
    ]
    one_thread = fit(mine, data[name], 1, f"{len(mine)} networks of {version}, one thread")
    return BoardValidation(
        target=name,
        works=works[1][name],
        measured=(board.one_thread_ms, board.four_threads_ms),
        one_thread=one_thread,
        four_threads=fit_memory(
            _measurements(board.four_threads_ms, works[FOUR][name]),
            data[name],
            FOUR,
            one_thread.coefficients.compute,
            f"{len(mine)} networks of {version}, four threads",
        ),
        other_boards=errors_of(fit_together(others, 1), mine, data[name], 1) if others else {},
        int8=errors_of(fit(floats, data[name], 1, "").coefficients, integers, data[name], 1),
    )


def median(errors: Errors) -> float | None:
    """The median absolute error; None without errors."""
    return float(np.median(np.abs(list(errors.values())))) if errors else None


def share_close(validations: Sequence[BoardValidation]) -> float:
    """The share of leave-one-out predictions for one thread within CLOSE."""
    errors = [error for board in validations for error in board.one_thread.errors.values()]
    return float(np.mean(np.abs(errors) <= CLOSE))


def _measurements(times: Mapping[str, float], works: Mapping[str, Work]) -> list[Measurement]:
    return [
        Measurement(name=network, work=works[network], milliseconds=milliseconds)
        for network, milliseconds in times.items()
    ]


def read_profiled(kept: Path, target: str, network: str) -> Profiled:
    """The profiles of `profile_networks`."""
    alone, several = (profile_path(kept, target, network, threads) for threads in (1, FOUR))
    for path in (alone, several):
        if not path.is_file():
            raise HarnessError(f"{path}: the network has not been profiled")
    return Profiled(alone=read_profile(alone), several=read_profile(several))


def profile_path(kept: Path, target: str, network: str, threads: int = 1) -> Path:
    """The file of a profile in the folder of `profile_networks`: of the first of so many threads."""
    name = f"{network}.profile" if threads == 1 else f"{network}-{threads}-threads.profile"
    return kept / target / name
