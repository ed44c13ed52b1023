"""The limits of a policy, as options."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.report.limits import Limits

DROP = 0.005  # of a search and of advice, which need a limit
AGREEMENT = 0.98
MIB = 1 << 20


def add_limits(
    parser: argparse.ArgumentParser,
    title: str,
    *,
    drop: float | None = None,
    agreement: bool = False,
) -> argparse._ArgumentGroup:
    """`drop` is the default of --max-drop; with `agreement` there is a limit of it."""
    limits = parser.add_argument_group(title)
    default = "" if drop is None else f" (default: {100 * drop:g})"
    limits.add_argument(
        "--max-drop",
        type=share,
        metavar="P",
        default=drop,
        help=f"lose at most P points of accuracy against fp32{default}",
    )
    if agreement:
        limits.add_argument(
            "--min-agreement",
            type=share,
            metavar="P",
            default=AGREEMENT,
            help=f"agree with fp32's own results in at least P %% (default: {100 * AGREEMENT:g})",
        )
    limits.add_argument("--min-fps", type=positive, metavar="F", help="reach at least F frames per second")
    limits.add_argument("--max-memory", type=positive, metavar="MIB", help="use at most MIB MiB of memory")
    return limits


def limits_of(arguments: argparse.Namespace) -> Limits:
    """The limits of a report."""
    from harness.report.limits import Limits

    return Limits(max_drop=arguments.max_drop, min_fps=arguments.min_fps, max_memory=memory_of(arguments))


def memory_of(arguments: argparse.Namespace) -> float | None:
    """Bytes."""
    memory: float | None = arguments.max_memory
    return None if memory is None else memory * MIB


def share(text: str) -> float:
    """A fraction from a text in percent."""
    percent = float(text)
    if not 0 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 100")
    return percent / 100


def positive(text: str) -> float:
    """A positive number."""
    number = float(text)
    if not number > 0 or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number
