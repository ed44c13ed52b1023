"""The limits of a policy, as options."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.report.limits import Limits


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The limits of a report's verdicts."""
    limits = parser.add_argument_group("limits of the recommended policy")
    limits.add_argument(
        "--max-drop", type=share, metavar="P", help="lose at most P points of accuracy against fp32"
    )
    limits.add_argument("--min-fps", type=positive, metavar="F", help="reach at least F frames per second")
    limits.add_argument("--max-memory", type=positive, metavar="MIB", help="use at most MIB MiB of memory")


def limits_of(arguments: argparse.Namespace) -> Limits:
    """The limits of the command line."""
    from harness.report.limits import Limits

    memory: float | None = arguments.max_memory
    return Limits(
        max_drop=arguments.max_drop,
        min_fps=arguments.min_fps,
        max_memory=None if memory is None else memory * (1 << 20),
    )


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
