"""A user's command that switches a board's power, for example through a relay or a managed socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.boards.user_command import CommandWords, run_user_command
from harness.config.validation import Either, Field, Number, Record, Shape, Then, from_dataclass
from harness.text import printable

PowerAction = Literal["off", "on", "cycle"]

ACTIONS: tuple[PowerAction, ...] = ("off", "on", "cycle")
_PLACE = "{action}"


@dataclass(frozen=True, kw_only=True)
class PowerHook:
    """The command, with `{action}` for the action, and its timeout in seconds."""

    command: tuple[str, ...]
    seconds: float = 60.0

    def switch(self, action: PowerAction) -> None:
        """Runs the command on this machine and waits for its end.

        Raises HarnessError if it cannot be started, fails, or times out: then it and its children are killed.
        """
        words = [word.replace(_PLACE, action) for word in self.command]
        doing = f"the power command {printable(words[0])} ({action})"
        run_user_command(words, self.seconds, doing=doing, key="power")


_COMMAND = CommandWords(
    example=f'[uhubctl, -l, 1-1, -p, 2, -a, "{_PLACE}"]',
    place=_PLACE,
    replaced_by=f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}",
)


POWER_SHAPE: Shape[PowerHook] = Either(
    short=Then(shape=_COMMAND, make=lambda _node, words: PowerHook(command=words)),
    long=Record(
        what="a power hook",
        make=from_dataclass(PowerHook),
        defaults=PowerHook,
        fields={
            "command": Field(
                shape=_COMMAND,
                help="words of the command; {action} in one of them becomes off, on or cycle",
                required=True,
                example=["uhubctl", "-l", "1-1", "-p", "2", "-a", _PLACE],
            ),
            "seconds": Field(
                shape=Number(least=0.1, most=3600),
                help="maximum duration of the command, in seconds",
                example=30,
            ),
        },
    ),
)
