"""`harness schema`: prints the JSON schema of a kind of configuration file, or of a command's --json."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness import console

if TYPE_CHECKING:
    from harness.config.validation import Schema

KINDS = ("sweep", "targets", "boards")
COMMANDS = ("report", "compare", "history", "predict")  # whose --json has a schema


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        choices=(*KINDS, *COMMANDS),
        nargs="?",
        default="sweep",
        help="kind of file, or command that prints JSON (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    console.emit_json(schema_of(arguments.kind))
    return 0


def schema_of(kind: str) -> Schema:
    """The JSON schema of one of KINDS or COMMANDS."""
    from harness.boards import inventory
    from harness.config import sweep_file, targets
    from harness.report.schema import json_schema

    if kind in COMMANDS:
        return json_schema(kind)
    schemas = {
        "sweep": sweep_file.json_schema,
        "targets": targets.json_schema,
        "boards": inventory.json_schema,
    }
    return schemas[kind]()
