"""`harness schema`: prints the JSON schema of the sweep file, for editors."""

from __future__ import annotations

import argparse

from harness import console


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing beyond the common options."""


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - always JSON
    from harness.config.sweep_file import json_schema

    console.emit_json(json_schema())
    return 0
