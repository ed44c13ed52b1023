"""`python -m tools.boardmodel`: check the board model against published times, or analyse inner loops."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness import console
from harness.errors import explained
from harness.signals import Ended, ended_by_signals
from tools.boardmodel import loops_command, validate_command, versions_command

COMMANDS = {
    "validate": ("compare predictions with the times that ncnn publishes", validate_command),
    "versions": (
        "compare these times with predictions for their version of ncnn and for the pinned one",
        versions_command,
    ),
    "loops": ("compare each inner loop with the core's peak throughput", loops_command),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. Raises SystemExit for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m tools.boardmodel", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (line, module) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        subparser.add_argument("--json", action="store_true", help="print JSON on stdout")
        subparser.add_argument(
            "--target", action="append", default=[], metavar="T", help="target; can be repeated"
        )
        module.configure(subparser)
    options = parser.parse_args(arguments)
    console.begin_output()
    try:
        with ended_by_signals():
            status: int = COMMANDS[options.command][1].run(options)
        return status
    except Ended as end:
        return end.exit_status
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        print(f"boardmodel: error: {known}", file=sys.stderr)
        return known.exit_status


if __name__ == "__main__":
    sys.exit(main())
