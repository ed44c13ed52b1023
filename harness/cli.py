"""The command line. Only the chosen command's module is imported, so `--help` stays fast."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from harness import __version__, console
from harness.ending import Ended, ended_by_signals
from harness.errors import ConfigurationError, explained
from harness.printable import is_utf8, printable_lines
from harness.temporary import remove_left

# Name -> one line of help. The module of a command is harness.commands.<name>.
COMMANDS = {
    "build": "cross-compile the engine for a target",
    "image": "build the arm64 image of a target",
    "run": "run a sweep",
    "report": "show the results of a sweep again",
    "predict": "predict a board's speed from an emulated run",
    "eval": "measure accuracy on the host",
    "detect": "detect objects in pictures",
    "calibrate": "record activation ranges for int8",
    "models": "list and fetch models",
    "targets": "list the targets",
    "boards": "list the boards",
    "doctor": "check what this machine or a target has, and install what is missing",
    "schema": "print the JSON schema of the sweep file",
}


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The whole parser; only `chosen`'s options are filled in."""
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Mixed-precision inference on Arm boards: build, deploy, sweep precisions, report.",
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        subparser.add_argument("--json", action="store_true", help="data as JSON on stdout, logs on stderr")
        subparser.add_argument("--debug", action="store_true", help="show a traceback with errors")
        subparser.add_argument("--quiet", action="store_true", help="no progress on stderr")
        if name == chosen:
            importlib.import_module(f"harness.commands.{name}").configure(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    chosen = next((word for word in words if not word.startswith("-")), None)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for letters that the terminal does not have
    options = _parser(chosen).parse_args(words)
    console.set_quiet(options.quiet)
    try:
        for word in words:
            if not is_utf8(word):  # JSON and the store could not hold it
                raise ConfigurationError(f"the argument {word} is not UTF-8", cure="Rename the file.")
        with ended_by_signals():
            remove_left()
            status: int = importlib.import_module(f"harness.commands.{options.command}").run(options)
            sys.stdout.flush()
    except Ended as end:
        _show(str(end), debug=options.debug)
        return end.exit_status
    except KeyboardInterrupt:
        _show("interrupted", debug=options.debug)
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left in the buffer must not be tried again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback without asking for it
        if known := explained(error):
            _show(f"error: {known}", debug=options.debug)
            return known.exit_status
        _show(f"error: unexpected {type(error).__name__}: {error}", debug=options.debug)
        if not options.debug:
            _show("this is a fault of harness; --debug shows where it arose", debug=False)
        return 1
    return status


def _show(message: str, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"harness: {printable_lines(message)}", file=sys.stderr)
