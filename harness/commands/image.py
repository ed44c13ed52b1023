"""`harness image`: builds the arm64 image of a target."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness import console

if TYPE_CHECKING:
    from harness.images.image import BuiltImage


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", required=True, metavar="T", help="build for this target, for example pi4")
    parser.add_argument("--fresh", action="store_true", help="rebuild the image and its base")


def run(arguments: argparse.Namespace) -> int:
    from harness.config.targets import load_target
    from harness.images.image import build_image

    built = build_image(load_target(arguments.target), fresh=arguments.fresh)
    if arguments.json:
        console.emit_json(_row(built))
    elif built.cached:
        print(f"{built.image.tag}: up to date (on {built.image.described()})")
    else:
        print(
            f"{built.image.tag}: built on {built.image.described()} in {built.seconds:.0f} s; "
            f"log in {built.log}"
        )
    return 0


def _row(built: BuiltImage) -> dict[str, object]:
    image = built.image
    return {
        "target": image.target.name,
        "tag": image.tag,
        "id": image.id,
        "base": image.base,
        "source": image.source,
        "glibc": image.glibc,
        "glibc_target": image.target.glibc,
        "glibc_newer": image.glibc_newer,
        "seconds": round(built.seconds, 3),
        "cached": built.cached,
        "log": str(built.log),
    }
