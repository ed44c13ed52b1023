"""A user's command in a boards file. It runs on this machine, without a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from harness import console
from harness.config.document import Node
from harness.config.validation import Schema
from harness.errors import HarnessError
from harness.text import one_line

# Messages show only the type of a text, because it may be a password.
_KINDS = {"nothing": "nothing", "integer": "an integer"}
_MOST_OUTPUT = 4 << 20  # bytes
_LOOK_SECONDS = 0.1  # between two checks of the amount of output
_LONGEST = 1 << 16  # bytes from the end of a command's output


def run_user_command(words: Sequence[str], seconds: float, *, doing: str, key: str) -> str:
    """Runs a command, waits at most `seconds` for its end, and returns its standard output.

    `doing` describes the command in messages, `key` is its key in the boards file. Raises HarnessError if it
    cannot be started, fails, or takes too long; it and its children are killed then.

    Both the command's words and its output may contain a password, and errors are stored with results. So
    errors contain neither; the last output is only shown on standard error.
    """
    # To files: a pipe would block while a remaining child process holds it open.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise HarnessError(
                f"{doing} cannot be started: {error.strerror}",
                hint=f"`{key}` in the boards file is a list of words; the first is a program here.",
            ) from None
        try:
            status = _status(process, seconds, (output, errors))
        except _FloodedError:
            raise HarnessError(
                f"{doing} printed more than {_MOST_OUTPUT >> 20} MB",
                hint=f"Run the command under `{key}` in the boards file by hand.",
            ) from None
        except subprocess.TimeoutExpired:
            raise HarnessError(
                f"{doing} did not end within {seconds:g} s",
                hint=f"Increase `seconds` under `{key}` in the boards file.",
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        printed = _end_of(output)
        if status != 0:
            said = (_end_of(errors).strip() or printed.strip()).splitlines() or ["nothing"]
            console.warn(f"{doing} printed: {one_line(said[-1])}")
            raise HarnessError(
                f"{doing} failed with status {status}",
                hint=f"Run the command under `{key}` in the boards file by hand.",
            )
    return printed


class _FloodedError(Exception):
    pass


def _status(process: subprocess.Popen[bytes], seconds: float, files: Sequence[IO[bytes]]) -> int:
    """The exit status of a process. Raises _FloodedError if its output files get too large."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            status = process.wait(max(min(_LOOK_SECONDS, deadline - time.monotonic()), 0))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise
            status = None
        if sum(os.fstat(file.fileno()).st_size for file in files) > _MOST_OUTPUT:
            raise _FloodedError
        if status is not None:
            return status


def _end_of(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST))
    return file.read().decode(errors="replace")


@dataclass(frozen=True, kw_only=True)
class CommandWords:
    """The shape of a command; one word must contain `place`; `example` is for messages."""

    example: str
    place: str = ""
    replaced_by: str = ""

    def read(self, node: Node) -> tuple[str, ...]:
        scalars = ("text", "integer", "number", "boolean")
        if node.kind != "list" or not node.items or any(item.kind not in scalars for item in node.items):
            raise node.error(
                f"expected a command as a list of words, found {_KINDS.get(node.kind, f'a {node.kind}')}",
                hint=f"For example {self.example}.",
            )
        words = tuple(item.source for item in node.items)
        for item in node.items:
            if "\0" in item.source:
                raise item.error("a word of a command must not contain a null character")
        if not words[0].strip():
            raise node.error("the first word of a command is a program; this word is empty")
        if not any(self.place in word for word in words):
            raise node.error(
                f"no word of the command contains {self.place}",
                hint=f"{self.place} is replaced by {self.replaced_by}.",
            )
        return words

    def schema(self) -> Schema:
        return {"type": "array", "minItems": 1, "items": {"type": "string"}}
