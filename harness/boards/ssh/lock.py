"""The lock on a board: two harnesses, also on different machines, never measure there at a time.

The lock is free while the folder lock/held on the board is missing or empty, and held by the one session
whose file is in it. A session takes it by renaming a folder that holds its file to lock/held, which the
kernel does at once, and only where that is missing or empty. It is given back by removing that file, whose
name is the session's alone: nobody, however late, can give back what another one holds. So it is taken from a
dead session as well, by all who wait; then one of them wins the renaming. What a dead holder started is
killed before.

What puts back what was set on the board goes with the lock: where it has failed, the next holder gets it.

The lock is the working folder's: harnesses with other folders on the same board, as other users have, do not
see it. And the folder has to be one board's own: where boards share a home folder, each would take the
others' sessions for dead, as it cannot see their processes.

The file says who holds the lock, and since when by the board's clock, for people to read. Whether the holder
lives is decided on the board, see harness.boards.ssh.session.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from harness import console
from harness.boards.ssh.cache_eviction import make_room
from harness.boards.ssh.session import FUNCTIONS
from harness.errors import BoardBusyError, BoardUnreachableError, HarnessError
from harness.text import brief, printable

if TYPE_CHECKING:
    from harness.boards.ssh.remote import Remote

ANSWER_SECONDS = 60.0
LOCK_BYTES = 64 << 10  # what a file and its folders may take, on any storage
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds; every attempt disturbs what is measured there a little

# `mv` into a folder that is there is a renaming to lock/held, or an error.
_TAKE = (
    FUNCTIONS
    + r"""
claim=$folder/sessions/$2/held
mkdir "$claim" 2>/dev/null
printf '%s\n' "$3" "$(date -u '+%Y-%m-%d %H:%M:%S UTC')" >"$claim/$2" || exit 1
taken() {  # session
  mv -f "$folder/undo-$boot" "$folder/sessions/$1/undo" 2>/dev/null
  echo taken
  exit 0
}
for attempt in 1 2 3; do
  if mv -f "$claim" "$folder/lock/." 2>/dev/null; then taken "$2"; fi
  for each in "$folder/lock/held"/*; do
    if [ "${each##*/}" = "$2" ]; then taken "$2"; fi
    if alive "${each##*/}"; then
      echo busy
      cat "$each" 2>/dev/null
      exit 0
    fi
    if [ -e "$each" ]; then end "${each##*/}"; fi
  done
done
echo busy
"""
)

_GIVE_BACK = r"""
undo=$1/sessions/$2/undo
if [ -e "$undo" ]; then mv -f "$undo" "$1/undo-$(cat /proc/sys/kernel/random/boot_id)" || exit; fi
rm -f "$1/lock/held/$2" || exit
rmdir "$1/lock/held" 2>/dev/null
:
"""


def take_command(folder: str, session: str, who: str) -> list[str]:
    """The words that try to take the lock; they print `taken`, or `busy` and what its holder left there."""
    return ["sh", "-c", _TAKE, "sh", folder, session, who]


def give_back_command(folder: str, session: str) -> list[str]:
    """The words that give the lock back if the session holds it."""
    return ["sh", "-c", _GIVE_BACK, "sh", folder, session]


@contextlib.contextmanager
def held(board: Remote, *, timeout: float, pause: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Holds the lock of a connected board; says whom it waits for where it has to.

    `pause` waits so many seconds between two attempts; what it raises ends the waiting. Raises
    BoardBusyError where another harness has the lock for longer than `timeout` seconds. Where it cannot be
    given back the connection is closed, so that the board does it by itself; what was done meanwhile stands.
    """
    _take(board, timeout, pause)
    try:
        yield
    finally:
        _give_back(board)


def _give_back(board: Remote) -> None:
    why = ""
    try:
        session = board.session
        result = board.run(give_back_command(session.folder, session.name), timeout=ANSWER_SECONDS)
        if result.status == 0:
            return
        why = brief(result.stderr)
    except BoardUnreachableError:
        pass
    except HarnessError as error:
        why = error.message
    if why:
        console.warn(f"{printable(board.name)}: could not release the lock on the board: {why}; disconnected")
    board.lose()


def _take(board: Remote, timeout: float, pause: Callable[[float], object]) -> None:
    deadline, length = time.monotonic() + timeout, FIRST_PAUSE
    holder = _attempt(board)
    if not holder:
        return
    name = printable(board.name)
    with console.progress(f"waiting for {name}: {holder}", None) as progress:
        while holder:
            left = deadline - time.monotonic()
            if left <= 0:
                raise BoardBusyError(
                    f"{name}: {holder}; waited for {timeout:g} s",
                    hint="Wait until the other harness ends, or end it: the lock is released within seconds.",
                )
            pause(min(length, left))
            length = min(2 * length, LONGEST_PAUSE)
            if holder := _attempt(board):
                progress.describe(f"waiting for {name}: {holder}")


def _attempt(board: Remote) -> str:
    """Nothing where the lock has been taken, else who has it."""
    session = board.session
    for last in (False, True):
        result = board.run(take_command(session.folder, session.name, _own_name()), timeout=ANSWER_SECONDS)
        said = [printable(line)[:200] for line in result.stdout.splitlines()]
        if result.status == 0 and said and said[0] in {"taken", "busy"}:
            break
        if last:
            raise HarnessError(
                f"{printable(board.name)}: could not take the lock on the board: "
                f"{brief(result.stderr) or 'no output'}",
                hint="Check the board's storage and its free space (df), then try again.",
            )
        # A shell may call a full disk an I/O error: this says what it is, or makes room.
        make_room(board, LOCK_BYTES)
    if said[0] == "taken":
        return ""
    return f"locked by {said[1]} since {said[2]}" if len(said) >= 3 else "locked by another harness"


def _own_name() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = str(os.getuid())
    return printable(f"{user}@{socket.gethostname()} (process {os.getpid()})")
