"""A user's own command that switches a board's power, through a relay or a managed socket for example."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Literal

from harness.configuration.document import Node
from harness.configuration.shapes import Either, Field, Number, Record, Schema, Shape, made_of
from harness.errors import HarnessError

PowerAction = Literal["off", "on", "cycle"]

ACTIONS: tuple[PowerAction, ...] = ("off", "on", "cycle")
_PLACE = "{action}"
_SHOWN = 2000  # bytes from the end of what the command printed, the last line of which is shown


@dataclass(frozen=True, kw_only=True)
class PowerHook:
    """The command's words, `{action}` in them standing for what to do, and the seconds it is given."""

    command: tuple[str, ...]
    seconds: float = 60.0

    def switch(self, action: PowerAction) -> None:
        """Runs the command on this machine, without a shell, and waits for its end.

        Raises HarnessError where it cannot be started, fails, or takes too long: then it and what it started
        are killed. Its words are not shown, they may hold a password.
        """
        words = [word.replace(_PLACE, action) for word in self.command]
        doing = f"the power command {words[0]} ({action})"
        # To a file: a pipe would be waited for as long as anything that was left behind holds it open.
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
            except OSError as error:
                raise HarnessError(
                    f"{doing} cannot be started: {error.strerror}",
                    cure="`power` in the boards file is a list of words, the first a program here.",
                ) from None
            try:
                status = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                raise HarnessError(
                    f"{doing} did not end within {self.seconds:g} s",
                    cure="Give it more `seconds` under `power` in the boards file.",
                ) from None
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if status != 0:
                output.seek(max(0, output.seek(0, os.SEEK_END) - _SHOWN))
                said = output.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"]
                raise HarnessError(f"{doing} failed with status {status}: {said[-1].strip()}")


class _Command:
    """The words of a command, one of which holds `{action}`."""

    def read(self, node: Node) -> tuple[str, ...]:
        scalars = ("text", "integer", "number", "boolean")
        if node.kind != "list" or not node.items or any(item.kind not in scalars for item in node.items):
            raise node.error(
                f"expected a command as a list of words, found {node.describe()}",
                cure=f'For example [uhubctl, -l, 1-1, -p, 2, -a, "{_PLACE}"].',
            )
        words = tuple(item.source for item in node.items)
        for item in node.items:
            if "\0" in item.source:
                raise item.error("a word of a command cannot hold a null character")
        if not words[0].strip():
            raise node.error("the first word of a command is a program, and this one is empty")
        if not any(_PLACE in word for word in words):
            raise node.error(
                f"no word of the command holds {_PLACE}",
                cure=f"{_PLACE} is replaced by {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}.",
            )
        return words

    def schema(self) -> Schema:
        return {"type": "array", "minItems": 1, "items": {"type": "string"}}


class _JustCommand:
    """The short form: a command alone."""

    def read(self, node: Node) -> PowerHook:
        return PowerHook(command=_Command().read(node))

    def schema(self) -> Schema:
        return _Command().schema()


POWER_SHAPE: Shape[PowerHook] = Either(
    short=_JustCommand(),
    long=Record(
        what="a power hook",
        make=made_of(PowerHook),
        fields={
            "command": Field(shape=_Command(), help="its words, with {action} in one", required=True),
            "seconds": Field(shape=Number(least=0.1, most=3600), help="what it is given, 60 without"),
        },
    ),
)
