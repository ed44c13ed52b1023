"""The lock on a board: only one harness measures there at a time, also from different machines.

The lock is free if the folder lock/held on the board is missing or empty. Otherwise the session with a file
in it holds the lock. A session takes the lock by renaming a folder with its own file to lock/held: the kernel
does this atomically, and only if lock/held is missing or empty. A session releases the lock by removing its
file. The file has the session's name, so nobody can release another session's lock. Every waiting session
removes the file of a dead holder, after it has killed the holder's programs; one of them then wins the
renaming.

The restore script moves with the lock: if it has failed, the next holder runs it again.

The lock belongs to the working folder: harnesses with different folders on one board, such as those of
different users, do not see each other's locks. Each board needs a folder of its own: boards with a shared
home folder would take each other's sessions for dead, as they do not see each other's processes.

The file contains the holder and the time, by the board's clock, for people to read. The board decides whether
the holder is alive: see harness.boards.ssh.session.
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
LOCK_BYTES = 64 << 10  # upper limit for a file and its folders on any file system
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds; every attempt slightly disturbs a measurement there

# `mv` into an existing folder renames the claim to lock/held, or fails.
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

_RELEASE = r"""
script=$1/sessions/$2/undo
if [ -e "$script" ]; then mv -f "$script" "$1/undo-$(cat /proc/sys/kernel/random/boot_id)" || exit; fi
rm -f "$1/lock/held/$2" || exit
rmdir "$1/lock/held" 2>/dev/null
:
"""


def take_command(folder: str, session: str, who: str) -> list[str]:
    """The command that tries to take the lock. It prints `taken`, or `busy` and the holder's file."""
    return ["sh", "-c", _TAKE, "sh", folder, session, who]


def release_command(folder: str, session: str) -> list[str]:
    """The command that releases the lock if the session holds it."""
    return ["sh", "-c", _RELEASE, "sh", folder, session]


@contextlib.contextmanager
def held(board: Remote, *, timeout: float, pause: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Holds the lock of a connected board. While it waits, it shows the holder.

    `pause` sleeps that many seconds between two attempts; its exceptions end the wait. Raises BoardBusyError
    if another harness holds the lock for longer than `timeout` seconds. If the lock cannot be released, the
    connection is closed, so that the board releases it; this is no error.
    """
    _take(board, timeout, pause)
    try:
        yield
    finally:
        _release(board)


def _release(board: Remote) -> None:
    why = ""
    try:
        session = board.session
        result = board.run(release_command(session.folder, session.name), timeout=ANSWER_SECONDS)
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
    """The holder of the lock; "" if this session has taken it."""
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
        # Some shells report a full disk as an I/O error: this frees space, or raises a clear error.
        make_room(board, LOCK_BYTES)
    if said[0] == "taken":
        return ""
    return f"locked by {said[1]} since {said[2]}" if len(said) >= 3 else "locked by another harness"


def _own_name() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user ID has no name
        user = str(os.getuid())
    return printable(f"{user}@{socket.gethostname()} (process {os.getpid()})")
