"""Boards with a liar in their engine's place (hostile_modes.py), and the lies of their shells and servers."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import hostile_modes
from board import Board

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # boards do not see this user's home

# Every command of a connection comes here. `lie` says how the shell itself lies, `plan` what the engine does.
_SHELL = """\
#!/bin/sh
lie=$(cat {folder}/lie)
command=$SSH_ORIGINAL_COMMAND
case $lie:$command in
{lies}
esac
case $command in
internal-sftp) exec /usr/lib/openssh/sftp-server ;;
*/mpe\\ bench\\ * | */mpe\\ forward\\ *)
  command=$(printf '%s\\n' "$command" | sed 's#[^ ]*/mpe [bf][eo][nr][^ ]* #{liar} &#')
  ;;
esac
exec sh -c "$command"
"""


@dataclass(frozen=True, kw_only=True)
class Lie:
    """How a board's shell lies; a command that matches `pattern` is replaced."""

    name: str
    what: str
    cause: str  # a pattern that the harness's messages match; empty: the lie is not believed, and no matter
    pattern: str = "*"
    instead: str = ""


_READ_STATE, _READ_LOG = "*MemAvailable*", "*'cat <'*'rm -f --'*"
LIES_OF_SHELLS = [
    Lie(
        name="greets",
        what="each answer begins with a greeting",
        cause="prints text before each command",
        instead='echo Welcome; exec sh -c "$command"',
    ),
    Lie(
        name="says_nothing",
        what="every command ends at once",
        cause="cannot be used|the connection",
        instead="exit 0",
    ),
    Lie(
        name="floods",
        what="every answer is without end",
        cause="prints text before each command|the board reported an error|sends more than",
        instead="exec yes 0123456789",
    ),
    Lie(
        name="hashes",
        what="garbage instead of sha256sum",
        cause="sha256sum failed|arrived damaged",
        pattern="*sha256sum*",
        instead="echo $$; echo garbage; exit 0",
    ),
    Lie(
        name="sftp",
        what="garbage instead of SFTP, so that files go through the shell",
        cause="",
        pattern="internal-sftp",
        instead="exec yes 0123456789",
    ),
    Lie(
        name="lock",
        what="garbage instead of the lock's state",
        cause="could not take the lock on the board",
        pattern="*lock/held*taken*",
        instead="echo $$; echo maybe; exit 0",
    ),
    Lie(
        name="state",
        what="garbage instead of its state",
        cause="did not report the state",
        pattern=_READ_STATE,
        instead="echo $$; echo garbage; exit 0",
    ),
    Lie(
        name="state_flood",
        what="a state without end",
        cause="printed more than 1 MB",
        pattern=_READ_STATE,
        instead="echo $$; exec yes zone",
    ),
    Lie(
        name="sensors",
        what="a log of sensors without end",
        cause="printed more than",
        pattern=_READ_LOG,
        instead="echo $$; exec yes '1.0 1 1 - - -'",
    ),
    Lie(
        name="absurd",
        what="clocks, heat, power and uptime that cannot be",
        cause="",
        pattern=_READ_STATE,
        instead="echo $$; printf '{absurd}'; exit 0",
    ),
]
LIE_OF_SERVER = Lie(name="server", what="bytes without end instead of an SSH server", cause="connecting")
_ABSURD = (
    "core\\t0\\t999999999999999999\\t-7\\tNaN\\tperformance\\t\\nzone\\t999999999999\\tcpu-thermal\\t\\n"
    "rail\\t999999999999999999\\tVDD_IN\\t\\ncooler\\t-9\\tfan\\t\\nthrottled\\t0x\\t\\n"
    "uptime\\tNaN NaN\\t\\nload\\tinf -1 1e999\\t\\nmemory\\t-5\\t\\nend\\t\\n"
)


class HostileBoard(Board):
    """A board with an engine and a shell that lie as its files `plan` and `lie` say."""

    def __init__(self, name: str, folder: Path, libraries: Path) -> None:
        self._control = folder.with_name(f"{folder.name}-control")
        self._control.mkdir()
        self.plan(dict[str, str]())
        self.lie("")
        shell = self._control / "shell"
        lies = "\n".join(
            f"{lie.name}:{lie.pattern}) {lie.instead.replace('{absurd}', _ABSURD)} ;;"
            for lie in LIES_OF_SHELLS
        )
        liar = f"{PYTHON} -I -S {hostile_modes.__file__} {self._control}/plan"
        shell.write_text(_SHELL.format(folder=self._control, lies=lies, liar=liar))
        shell.chmod(0o755)
        self.more_configuration = f"ForceCommand {shell}\n"
        super().__init__(name, folder, libraries)

    @property
    def work(self) -> Path:
        return self.disk / "work"

    def entry(self) -> dict[str, object]:
        return super().entry() | {"target": str(self.folder.with_name("this.yaml")), "retry": [0.2]}

    def plan(self, modes: Mapping[str, str]) -> None:
        """The engine's behaviour for each cell."""
        (self._control / "plan").write_text(json.dumps(modes))

    def lie(self, name: str) -> None:
        """How the shell lies; "": it does not."""
        (self._control / "lie").write_text(name)


@contextlib.contextmanager
def flooding_server() -> Iterator[int]:
    """A port of loopback that sends every client bytes without end."""
    listener = socket.create_server(("127.0.0.1", 0))

    def flood(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while True:
                client.sendall(b"0123456789" * 1000)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=flood, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield listener.getsockname()[1]
