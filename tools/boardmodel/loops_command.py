"""`python -m tools.boardmodel loops`: the inner loops of a network, each compared with its core's peak."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.table import Table

from harness import console
from harness.commands.model_options import add_model, chosen_cfg
from harness.config.targets import load_target
from harness.errors import ConfigurationError
from harness.prediction.engine_run import Inference, profile_emulated
from harness.prediction.predictor import find_predictor
from harness.report.tables import figure
from harness.runtimes.engine import EngineOptions
from tools.boardmodel.loops import Loop, find_loops, write_loops


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--calibration", type=Path, metavar="F", help="ranges for int8 (harness calibrate)")
    parser.add_argument("--isa", metavar="NAME", help="instruction set (default: the best the board has)")
    parser.add_argument("--algorithm", metavar="NAME", help="algorithm of convolutions (default: automatic)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write the assembly of each loop to DIR/TARGET, with the llvm-mca command that analyses it",
    )


def run(arguments: argparse.Namespace) -> int:
    targets = [load_target(name) for name in arguments.target]
    if not targets:
        raise ConfigurationError("no target", hint="Name one: --target pi4.")
    files = {"weights": arguments.weights}
    if arguments.calibration:
        files["calibration"] = arguments.calibration
    options = EngineOptions(isa=arguments.isa, algorithm=arguments.algorithm)
    found: dict[str, Sequence[Loop]] = {}
    with chosen_cfg(arguments) as cfg:
        predictors = [find_predictor(target) for target in targets]
        inferences = [
            Inference(name=target.name, target=target, files=files | {"cfg": cfg}, options=options)
            for target in targets
        ]
        profiles = profile_emulated(inferences)
        for target, predictor, runs in zip(targets, predictors, profiles, strict=True):
            found[target.name] = loops = find_loops(runs[1][0].alone, predictor)
            if arguments.out:
                write_loops(loops, arguments.out / target.name, predictor)
    if arguments.json:
        data = [{"target": name, "loops": [asdict(loop) for loop in loops]} for name, loops in found.items()]
        console.emit_json({"targets": data})
    else:
        _print(found)
    return 0


def _print(found: Mapping[str, Sequence[Loop]]) -> None:
    for target, loops in found.items():
        table = Table(box=box.SIMPLE_HEAD, title=f"{target}, inner loops", title_justify="left")
        table.add_column("loop", justify="right")
        table.add_column("layers")
        for heading in ("% of all cycles", "instructions", "multiply-adds", "cycles", "% of peak"):
            table.add_column(heading, justify="right")
        for number, loop in enumerate(loops):
            table.add_row(
                *(str(number), ", ".join(map(str, loop.layers)), figure(loop.share, 0.01)),
                *(str(len(loop.assembly)), figure(loop.multiply_adds), figure(loop.cycles)),
                figure(loop.peak, 0.01),
            )
        console.stdout().print(table)
