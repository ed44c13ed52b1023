"""Draws published times against predicted ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigurationError
from tools.boardmodel.validation import CLOSE, FOUR

if TYPE_CHECKING:
    from tools.boardmodel.validation import BoardValidation


def draw(validations: Sequence[BoardValidation], path: Path) -> None:
    """Writes a plot in the format of the path's suffix: a point per network, board and number of threads."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigurationError("the plot needs matplotlib", hint="pip install matplotlib") from None

    mpl.rcParams["svg.hashsalt"] = "harness"  # reproducible
    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.subplots()
    for number, board in enumerate(validations):
        for threads, marker in ((1, "o"), (FOUR, "^")):
            times = board.measured[threads != 1]
            axes.scatter(
                list(times.values()),
                [board.predicted_ms(network, threads) for network in times],
                s=18,
                marker=marker,
                facecolor=f"C{number}" if threads == 1 else "none",
                edgecolor=f"C{number}",
                linewidth=0.8,
                label=f"{board.target}, {threads} thread{'s'[: threads > 1]}",
            )
    everything = [time for board in validations for times in board.measured for time in times.values()]
    ends = [0.8 * min(everything), 1.25 * max(everything)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(
        ends,
        [(1 - CLOSE) * end for end in ends],
        [(1 + CLOSE) * end for end in ends],
        color="black",
        alpha=0.07,
        linewidth=0,
        label=f"within {100 * CLOSE:.0f} %",
    )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set_xlabel("published, ms")
    axes.set_ylabel("predicted with the network left out of the fit, ms")
    axes.legend(fontsize="small")
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot write the plot: {error}") from None
