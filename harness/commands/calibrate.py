"""`harness calibrate`: records activation ranges for int8."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commands.model_options import (
    add_dataset,
    add_engine,
    add_model,
    chosen_cfg,
    dataset_of,
    engine_options,
)
from harness.config.preprocessing import RESIZES
from harness.text import printable


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(
        parser,
        policy_help="record ranges with these precisions instead of fp32; static int8 runs in fp32",
    )
    add_dataset(parser, what="pictures; labels are not needed", split="default: train, else val")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="F", help="write the calibration to this file"
    )
    parser.add_argument("--limit", type=int, default=32, metavar="N", help="use N pictures (default: 32)")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="skip the first N pictures")
    parser.add_argument(
        "--method",
        choices=("minmax", "percentile", "kl", "mse"),
        default="minmax",
        help="choose ranges by this method (default: minmax, the range of all values)",
    )
    parser.add_argument(
        "--resize",
        choices=RESIZES,
        help="resize pictures by this method (default: as in eval)",
    )
    add_engine(parser, calibration=False)


def run(arguments: argparse.Namespace) -> int:
    from harness import console
    from harness.accuracy.calibrate import calibrate
    from harness.accuracy.dataset import with_split_in_use
    from harness.errors import ConfigurationError
    from harness.runtimes.engine import host_engine

    if not arguments.out.parent.is_dir():
        raise ConfigurationError(f"{arguments.out}: the folder does not exist")
    with chosen_cfg(arguments, recording=True) as cfg:
        dataset = with_split_in_use(dataset_of(arguments), "train")
        calibration = calibrate(
            host_engine(arguments.algorithm),
            cfg=cfg,
            weights=arguments.weights,
            dataset=dataset,
            method=arguments.method,
            limit=arguments.limit,
            skip=arguments.skip,
            resize=arguments.resize,
            options=engine_options(arguments),
            as_is=arguments.policy is not None,
            origin=arguments.cfg,
        )
    calibration.write(arguments.out)
    if arguments.json:
        console.emit_json(
            {
                "out": str(arguments.out),
                "method": calibration.method,
                "images": calibration.images,
                "tensors": len(calibration.tensors),
            }
        )
    else:
        print(
            f"{printable(str(arguments.out))}: ranges of {len(calibration.tensors)} tensors "
            f"from {calibration.images} images of {printable(str(dataset))} ({calibration.method})"
        )
    return 0
