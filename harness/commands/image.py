"""`harness image`: builds the arm64 image of a target."""

from __future__ import annotations

import argparse
import dataclasses

from harness import console
from harness.boards.images import build_image, log_path
from harness.configuration.targets import load_target


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", required=True, metavar="T", help="an arm64 target, such as pi4")
    parser.add_argument(
        "--fresh", action="store_true", help="build again, its base too, what is there already"
    )


def run(arguments: argparse.Namespace) -> int:
    target = load_target(arguments.target)
    image = build_image(target, fresh=arguments.fresh)
    if arguments.json:
        console.emit_json(dataclasses.asdict(image))
    elif image.cached:
        print(f"{image.tag}: up to date (on {image.base})")
    else:
        print(f"{image.tag}: built on {image.base} in {image.seconds:.0f} s; log in {log_path(target)}")
    return 0
