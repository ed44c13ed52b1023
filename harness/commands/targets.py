"""`harness targets`: lists what can be built for."""

from __future__ import annotations

import argparse
from dataclasses import fields

from harness import console


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing beyond the common options."""


def run(arguments: argparse.Namespace) -> int:
    from harness.build.toolchain import ready_toolchains
    from harness.configuration.targets import all_targets

    targets = all_targets()
    if arguments.json:
        rows = [
            {field.name: getattr(target, field.name) for field in fields(target)}
            | {"toolchains": ready_toolchains(target)}
            for target in targets
        ]
        console.emit_json({"targets": rows})
        return 0
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("target", "also", "core", "features", "glibc", "image", "toolchains here", "description"):
        table.add_column(heading)
    for target in targets:
        table.add_row(
            target.name,
            ", ".join(target.aliases),
            target.cpu,
            " ".join(target.features),
            target.glibc,
            target.image,
            " ".join(ready_toolchains(target)),
            target.description,
        )
    console.stdout().print(table)
    return 0
