"""The command line. Only the chosen command's module is imported, so `--help` stays fast."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Container, Sequence
from typing import Any, NoReturn

from harness import __version__, completion, console
from harness.errors import ConfigurationError, explained
from harness.signals import Ended, ended_by_signals
from harness.temporary import remove_left
from harness.text import is_utf8, printable_lines

# Name -> one line of help. The module of a command is harness.commands.<name>, except for words of Python.
COMMANDS = {
    "import": "write an ONNX, TensorFlow Lite or Keras model as a cfg with weights",
    "export": "write a model under a policy in another format",
    "build": "cross-compile the engine for a target",
    "image": "build the arm64 image of a target",
    "run": "run a sweep",
    "report": "show the results of a sweep again",
    "compare": "compare two runs and find regressions",
    "history": "show the trend of many runs and find steps in it",
    "predict": "predict a board's speed from an emulated run",
    "eval": "measure accuracy on the host",
    "detect": "detect objects in pictures",
    "calibrate": "record activation ranges for int8",
    "sensitivity": "show which layers lose what in int8 or fp16",
    "search": "find the fastest precisions that lose no more than allowed",
    "advise": "say which precision and runtime meet your limits",
    "repair": "rewrite weights and ranges for the accuracy of int8",
    "finetune": "train weights and ranges further for the accuracy of int8",
    "models": "list and fetch models",
    "targets": "list the targets",
    "boards": "list the boards",
    "doctor": "check what this machine or a target has, and install what is missing",
    "schema": "print the JSON schema of a configuration file or of a command's JSON",
}


def module_of(command: str) -> str:
    """The module of a command."""
    return f"harness.commands.{'import_model' if command == 'import' else command}"


class _UsageError(Exception):
    """The command line is invalid; the usage has been shown."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _Parser(argparse.ArgumentParser):
    """Prints errors as argparse does, but lets the caller end the process."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {printable_lines(message)}", file=sys.stderr)
        raise _UsageError(message)


class _PrintCompletion(argparse.Action):
    """Prints the script of a shell and ends, as --version does."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, shell: Any, *__: object) -> None:
        print(completion.script(_parser(COMMANDS), shell))
        parser.exit()


def _parser(chosen: Container[str | None]) -> argparse.ArgumentParser:
    """The parser of all commands; only the chosen ones get their options."""
    parser = _Parser(
        prog="harness",
        description="Mixed-precision inference on Arm boards: build, deploy, sweep precisions, report.",
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    parser.add_argument(
        "--completion",
        choices=completion.SHELLS,
        action=_PrintCompletion,
        help="print the script that completes this command in a shell",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        subparser.add_argument("--json", action="store_true", help="data as JSON on stdout, logs on stderr")
        subparser.add_argument("--debug", action="store_true", help="show a traceback with errors")
        subparser.add_argument("--quiet", action="store_true", help="no progress on stderr")
        if name in chosen:
            importlib.import_module(module_of(name)).configure(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. Raises SystemExit for wrong usage, as argparse does.

    With --json every failure is also an object on stdout, unless the command has printed its data there.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the terminal cannot show
    # These options also apply to errors in the command line itself.
    options = argparse.Namespace(json=_asked_for(words, "--json"), debug=_asked_for(words, "--debug"))
    console.begin_output()
    try:
        status = _run(words, options)
    except _UsageError as error:
        hint = "`--help` after the command lists its options."
        raise SystemExit(_failed(options, ConfigurationError.exit_status, error.message, hint=hint)) from None
    except Ended as end:
        _show(str(end), debug=options.debug)
        return _failed(options, end.exit_status, str(end))
    except KeyboardInterrupt:
        _show("interrupted", debug=options.debug)
        return _failed(options, 130, "interrupted")
    except BrokenPipeError:
        _drop_output()
        return 0
    except Exception as error:  # noqa: BLE001 - users see a traceback only with --debug
        if known := explained(error):
            _show(f"error: {known}", debug=options.debug)
            return _failed(options, known.exit_status, known.message, hint=known.hint, where=known.where)
        unexpected = f"unexpected {type(error).__name__}: {error}"
        _show(f"error: {unexpected}", debug=options.debug)
        hint = "this is a bug in harness; --debug shows the traceback"
        if not options.debug:
            _show(hint, debug=False)
        return _failed(options, 1, unexpected, hint=hint)
    return status


def _run(words: Sequence[str], options: argparse.Namespace) -> int:
    """Parses the command line into `options` and runs the command."""
    for word in words:
        if not is_utf8(word):  # JSON and the store cannot contain it
            raise ConfigurationError(f"the argument {word} is not UTF-8", hint="Rename the file.")
    chosen = next((word for word in words if not word.startswith("-")), None)
    read = _parser({chosen}).parse_args(words)
    vars(options).update(vars(read))
    console.set_quiet(options.quiet)
    with ended_by_signals():
        remove_left()
        status: int = importlib.import_module(module_of(options.command)).run(options)
        sys.stdout.flush()
    return status


def _asked_for(words: Sequence[str], option: str) -> bool:
    """Whether an option is given, in full or abbreviated as argparse allows."""
    return any(len(word) > 3 and option.startswith(word) for word in words)


def _failed(
    options: argparse.Namespace, status: int, message: str, *, hint: str = "", where: str = ""
) -> int:
    """Returns the status; with --json, prints the error first."""
    if options.json and not console.has_output():
        error = {"status": status, "message": printable_lines(message)}
        places = {"hint": hint, "where": where}
        shown = error | {key: printable_lines(text) or None for key, text in places.items()}
        try:
            console.emit_json({"error": shown})
        except BrokenPipeError:
            _drop_output()
    return status


def _drop_output() -> None:
    """Discards buffered output: its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(message: str, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"harness: {printable_lines(message)}", file=sys.stderr)
