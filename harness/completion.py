"""Completion of the command line in a shell: the script that `harness --completion` prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

SHELLS = ("bash", "zsh", "fish")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """A script for one of SHELLS: commands, options, files, and names of targets, policies and toolchains.

    The names are those of this installation. `parser` has the options of all commands; it cannot parse
    afterwards.
    """
    import shtab

    from harness.build.toolchain import TOOLCHAINS
    from harness.config.policy import BUILT_IN
    from harness.config.targets import all_targets

    names = {
        "target": [name for target in all_targets() for name in (target.name, *target.aliases)],
        "policy": list(BUILT_IN),
        "toolchain": list(TOOLCHAINS),
    }
    for action in _actions(parser):
        if action.dest in names and action.nargs != 0:
            action.choices = names[action.dest]
        elif action.type is Path:
            folder = action.metavar == "DIR"
            action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    return text


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All options and arguments, those of subcommands too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action
