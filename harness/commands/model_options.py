"""The options that `eval`, `detect` and `calibrate` share: the model, and how the engine runs it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.runtimes.engine import EngineOptions


def add_model(parser: argparse.ArgumentParser) -> None:
    """--cfg and --weights."""
    parser.add_argument("--cfg", type=Path, required=True, metavar="C", help="network, Darknet cfg")
    parser.add_argument("--weights", type=Path, required=True, metavar="W", help="its weights")


def add_engine(parser: argparse.ArgumentParser, *, calibration: bool = True) -> None:
    """What EngineOptions holds, as a group of its own."""
    group = parser.add_argument_group("engine")
    if calibration:
        group.add_argument(
            "--calibration", type=Path, metavar="F", help="ranges for int8 (harness calibrate)"
        )
    group.add_argument(
        "--threads", type=positive_number, default=os.cpu_count() or 1, metavar="N", help="default: all cores"
    )
    group.add_argument("--isa", metavar="NAME", help="instruction set (default: the best this machine has)")
    group.add_argument("--algorithm", metavar="NAME", help="of convolutions (default: chosen by layer)")
    group.add_argument(
        "--bn-epsilon", type=float, metavar="E", help="of batch normalisation (default 1e-5, as Darknet)"
    )


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """The EngineOptions that the user gave."""
    from harness.runtimes.engine import EngineOptions

    return EngineOptions(
        threads=arguments.threads,
        isa=arguments.isa,
        algorithm=arguments.algorithm,
        calibration=getattr(arguments, "calibration", None),
        bn_epsilon=arguments.bn_epsilon,
    )


def positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number
