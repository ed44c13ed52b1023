"""`harness targets`: lists the targets."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from harness import console

if TYPE_CHECKING:
    from harness.images.image import Image


def configure(parser: argparse.ArgumentParser) -> None:
    """The command has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    from harness.build.toolchain import ready_toolchains
    from harness.config.targets import all_targets
    from harness.images.image import built_images

    targets = all_targets()
    images = built_images(targets)
    if arguments.json:
        rows = [
            asdict(target)
            | {"toolchains": ready_toolchains(target), "image_built": _built(images.get(target.name))}
            for target in targets
        ]
        console.emit_json({"targets": rows})
        return 0
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in (
        "target",
        "also",
        "core",
        "features",
        "glibc",
        "image built on",
        "toolchains here",
        "description",
    ):
        table.add_column(heading)
    for target in targets:
        table.add_row(
            target.name,
            ", ".join(target.aliases),
            target.cpu,
            " ".join(target.features),
            target.glibc,
            images[target.name].described() if target.name in images else "",
            " ".join(ready_toolchains(target)),
            target.description,
        )
    console.stdout().print(table)
    return 0


def _built(image: Image | None) -> dict[str, object] | None:
    if image is None:
        return None
    return {
        "tag": image.tag,
        "base": image.base,
        "source": image.source,
        "glibc": image.glibc,
        "glibc_newer": image.glibc_newer,
    }
