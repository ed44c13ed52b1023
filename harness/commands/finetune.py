"""`harness finetune`: trains a model's weights and ranges further, with the engine's int8 simulated."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.model_contents import check_changeable, model_contents
from harness.commands.model_options import (
    add_dataset,
    add_engine,
    add_model,
    dataset_of,
    engine_options,
    model_files,
    positive_number,
    with_policy,
)
from harness.commands.run import duration
from harness.config.preprocessing import RESIZES
from harness.text import printable

if TYPE_CHECKING:
    from harness.training.finetune import Trained


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_dataset(parser, what="pictures; labels are not needed", split="default: train, else val")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="write cfg, weights and ranges to this folder"
    )
    parser.add_argument(
        "--fp32-weights",
        type=Path,
        metavar="W",
        help="learn from the network in fp32 with these weights (default: the model's own)",
    )
    parser.add_argument(
        "--labels",
        action="store_true",
        help="learn from the data set's boxes, too (detectors of the kind yolo)",
    )
    pictures = parser.add_argument_group("pictures")
    pictures.add_argument(
        "--limit", type=positive_number, default=1000, metavar="N", help="use N pictures (default: 1000)"
    )
    pictures.add_argument(
        "--held-out",
        type=positive_number,
        metavar="N",
        help="do not learn from the last N: they decide which epoch is kept (default: a fifth, at most 64)",
    )
    pictures.add_argument(
        "--mirror",
        action=argparse.BooleanOptionalAction,
        help="mirror every second picture, left to right (default: yes, without --labels)",
    )
    pictures.add_argument(
        "--resize", choices=RESIZES, help="resize pictures by this method (default: as in eval)"
    )
    training = parser.add_argument_group("training")
    training.add_argument(
        "--budget", type=duration, metavar="T", help="end after this time at the latest: 90s, 20m, 1h"
    )
    training.add_argument(
        "--epochs",
        type=positive_number,
        default=30,
        metavar="N",
        help="learn N times from each picture (default: 30)",
    )
    training.add_argument(
        "--batch", type=positive_number, default=8, metavar="N", help="pictures of a step (default: 8)"
    )
    training.add_argument(
        "--rate",
        type=_rate,
        metavar="R",
        help="learning rate at its highest, as a share of the weights' size (default: by the outputs' error)",
    )
    training.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the pictures' order (default: 0)"
    )
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.config.model_files import check_model
    from harness.files import write_together
    from harness.runtimes.engine import host_engine
    from harness.training.finetune import Request, check, finetune

    _check_options(arguments)
    given = arguments.calibration
    with model_files(arguments), with_policy(arguments, arguments.policy, ranges=False) as cfg:
        check_model(cfg, arguments.fp32_weights or arguments.weights, given)
        check_changeable(arguments, given)
        request = Request(
            cfg=cfg,
            weights=arguments.weights,
            teacher=arguments.fp32_weights or arguments.weights,
            dataset=dataset_of(arguments),
            origin=arguments.cfg,
            labels=arguments.labels,
            limit=arguments.limit,
            held_out=arguments.held_out,
            epochs=arguments.epochs,
            batch=arguments.batch,
            rate=arguments.rate,
            seed=arguments.seed,
            mirror=not arguments.labels if arguments.mirror is None else arguments.mirror,
            seconds=arguments.budget,
            resize=arguments.resize,
            calibration=given,
            options=engine_options(arguments),
        )
        check(request)
        trained = finetune(host_engine(arguments.algorithm), request)
        contents = model_contents(
            arguments.cfg, text=trained.cfg, weights=trained.weights, calibration=trained.calibration
        )
        files = write_together(arguments.out, contents)
    if arguments.json:
        console.emit_json(_document(trained, files))
    else:
        _show(trained, files)
    if trained.interrupted:
        raise KeyboardInterrupt
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    from harness.errors import ConfigurationError

    if arguments.bn_epsilon is not None:
        raise ConfigurationError(
            "--bn-epsilon is not known to the training, which uses 1e-5", hint="Leave it out."
        )


def _show(trained: Trained, files: list[Path]) -> None:
    first, best = trained.epochs[0].loss, trained.best
    print(
        f"{trained.steps} steps at a rate of {trained.rate:.2g} on {trained.pictures} pictures, "
        f"{trained.held_out} pictures held out"
    )
    print(f"loss on these: {first:.4g} at first, {best.loss:.4g} after {best.number} epochs, which is kept")
    for before, after in zip(trained.before, trained.after, strict=True):
        ratios = f"{_decibels(before.sqnr_db)} at first, {_decibels(after.sqnr_db)} now"
        print(f"head {before.name}: SQNR {ratios}")
    for file in files:
        print(printable(str(file)))


def _decibels(ratio: float | None) -> str:
    return "without error" if ratio is None else f"{ratio:.1f} dB"


def _document(trained: Trained, files: list[Path]) -> dict[str, Any]:
    return {
        "files": [str(file) for file in files],
        "images": trained.pictures,
        "held_out": trained.held_out,
        "steps": trained.steps,
        "rate": trained.rate,
        "interrupted": trained.interrupted,
        "kept_epoch": trained.best.number,
        "epochs": [
            {"epoch": epoch.number, "held_out_loss": epoch.loss if math.isfinite(epoch.loss) else None}
            for epoch in trained.epochs
        ],
        "heads": [
            {"layer": int(before.name), "sqnr_before_db": before.sqnr_db, "sqnr_db": after.sqnr_db}
            for before, after in zip(trained.before, trained.after, strict=True)
        ],
    }


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and up to 1, found {text!r}")
    return number
